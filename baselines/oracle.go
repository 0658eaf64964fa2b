package baselines

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Oracle is a control that is told what out-of-domain looks like.
var Oracle = ood.Method{
	Name: "oracle",
	Doc: "Logistic regression of in-domain against out-of-domain features, standardised: what a linear detector could " +
		"reach if it were shown out-of-domain rows beforehand. The score is the log-odds; lambda weighs ½‖w‖² " +
		"against the summed loss. compare fits it with a random half of the out-of-domain rows and measures it on the other half.",
	Ref:     "control, Tagasovska & Lopez-Paz 2019, table 2",
	Needs:   ood.NeedFeatures | ood.NeedOutliers,
	Control: true,
	Default: ood.Params{"lambda": 1.},
	Fit:     fitOracle,
	Restore: func(st heads.State) (ood.Scorer, error) {
		w, err := st.Float64s("weight")
		if err != nil {
			return nil, err
		}
		if len(w) == 0 {
			return nil, errors.New("array \"weight\" is empty")
		}
		bias, err := st.Number("bias")
		if err != nil {
			return nil, err
		}
		return oracle{w, bias}, nil
	},
}

// oracle is the log-odds φ·weight + bias.
type oracle struct {
	weight []float64
	bias   float64
}

func fitOracle(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	r := p.Reader()
	lambda := r.Positive("lambda", 1)
	if err := r.Err(); err != nil {
		return nil, err
	}
	in, out := t.Features, t.Outliers.Features
	if err := checkRows(in, "the oracle"); err != nil {
		return nil, err
	}
	if out.Rows == 0 {
		return nil, &ood.NeedError{Method: "oracle", Need: ood.NeedOutliers, Where: "the rows to fit with"}
	}
	if out.Cols != in.Cols {
		return nil, fmt.Errorf("out-of-domain rows have %d features and in-domain rows %d", out.Cols, in.Cols)
	}
	if err := heads.CheckFinite("out-of-domain features", out); err != nil {
		return nil, err
	}
	all := blas32.General{Rows: in.Rows + out.Rows, Cols: in.Cols, Stride: in.Cols}
	for _, m := range []blas32.General{in, out} {
		for i := range m.Rows {
			all.Data = append(all.Data, row(m, i)...)
		}
	}
	scale, _ := heads.NewStandard(all)
	scale.Apply(all, all)
	w, err := logistic{x: all, negatives: in.Rows, lambda: lambda}.solve(ctx)
	if err != nil {
		return nil, fmt.Errorf("logistic regression: %w", err)
	}
	s := oracle{weight: w[:in.Cols], bias: w[in.Cols]}
	for j := range s.weight {
		s.weight[j] /= scale.Scale[j]
		s.bias -= s.weight[j] * scale.Mean[j]
	}
	return s, nil
}

// Score implements ood.Scorer.
func (s oracle) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.weight), "features"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for i := range dst {
		dst[i] = affine(row(b.Features, i), s.weight, s.bias)
	}
	return dst, nil
}

// State implements heads.Stater.
func (s oracle) State() heads.State {
	return heads.State{
		Params: map[string]any{"bias": s.bias},
		Arrays: map[string]heads.Array{"weight": heads.Vector(s.weight)},
	}
}
