package baselines

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/logistic"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var oracleMethod = ood.Method{
	Name: "oracle",
	Doc: "Logistic regression of in-distribution against OOD features, standardised: the score that a linear detector could reach if it had seen the OOD rows. " +
		"Use it only in comparisons, to see how much room for improvement is left. The score is the log-odds; lambda weighs ½‖w‖² against the summed loss. " +
		"compare fits it with a random half of the OOD rows and measures it on the other half.",
	Ref:     "control, Tagasovska & Lopez-Paz 2019, table 2",
	Needs:   ood.Needs{Features: true, Outliers: true},
	Control: true,
	Params:  []ood.Param{{Name: "lambda", Default: 1, Takes: "positive"}},
	Fit:     fitOracle,
	New:     func() any { return &oracle{} },
}

// oracle scores a row φ with the log-odds φ·Weight + Bias.
type oracle struct {
	Weight []float64 `state:"weight[features]"`
	Bias   float64   `state:"bias"`
}

func fitOracle(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	in, out := t.Features, t.Outliers.Features
	if out.Cols != in.Cols {
		return nil, fmt.Errorf("out-of-distribution rows have %d features, but in-distribution rows have %d", out.Cols, in.Cols)
	}
	if err := rows.CheckFinite("OOD features", out); err != nil {
		return nil, err
	}
	all := blas32.General{Rows: in.Rows + out.Rows, Cols: in.Cols, Stride: in.Cols}
	for _, m := range []blas32.General{in, out} {
		for i := range m.Rows {
			all.Data = append(all.Data, row(m, i)...)
		}
	}
	scale, _ := mlp.NewStandard(all)
	scale.Apply(all, all)
	w, b, err := logistic.Problem{X: all, Negatives: in.Rows, Lambda: p.Float("lambda")}.Solve(ctx)
	if err != nil {
		return nil, fmt.Errorf("logistic regression: %w", err)
	}
	s := &oracle{w, b}
	for j := range s.Weight {
		s.Weight[j] /= scale.Scale[j]
		s.Bias -= s.Weight[j] * scale.Mean[j]
	}
	return s, nil
}

func (s *oracle) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = logistic.LogOdds(row(b.Features, i), s.Weight, s.Bias)
	}
	return nil
}

func (s *oracle) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return b.Features.Double().Mul(s.Weight).Sum().Add(s.Bias), nil
}
