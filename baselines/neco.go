package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// NECO scores with the share of the features that lies in the space to which
// those of a network trained to the end collapse, negated.
var NECO = ood.Method{
	Name: "neco",
	Doc: "Minus the norm of the standardised features' projection on their first k principal components over their whole norm; " +
		"max_logit=true multiplies it by the largest logit, which the authors do for all networks but ResNets. k below 1 is a " +
		"share of the features, and k=0 stands for one less than there are logits: the dimension of the simplex that class " +
		"means collapse to. k stops short of all features.",
	Ref:     "Ben Ammar et al. 2024, arXiv:2310.06823, eq. 6",
	Needs:   ood.NeedFeatures | ood.NeedLogits,
	Memory:  squares(eigenSquares),
	Default: ood.Params{"k": 0., "max_logit": false},
	Grid:    necoGrid(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitNECO(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitNECO,
	Restore: func(st heads.State) (ood.Scorer, error) {
		var s neco
		k, err := whole(st, "k", 1)
		if err != nil {
			return nil, err
		}
		if s.classes, err = whole(st, "classes", leastLogits); err != nil {
			return nil, err
		}
		if s.maxLogit, err = st.Flag("max_logit"); err != nil {
			return nil, err
		}
		if s.mean, err = st.Float64s("mean"); err != nil {
			return nil, err
		}
		if s.scale, err = st.Float64s("scale"); err != nil {
			return nil, err
		}
		if len(s.scale) != len(s.mean) {
			return nil, fmt.Errorf("%d means but %d scales", len(s.mean), len(s.scale))
		}
		s.components, err = matrix64(st, "components", len(s.mean), k)
		return s, err
	},
}

func necoGrid() []ood.Params {
	var grid []ood.Params
	for _, maxLogit := range []bool{false, true} {
		for _, k := range []float64{0, .25, .5, 100} {
			grid = append(grid, ood.Params{"k": k, "max_logit": maxLogit})
		}
	}
	return grid
}

type neco struct {
	mean, scale []float64      // h
	components  blas64.General // h×k, of standardised features, times scale
	classes     int
	maxLogit    bool
}

func fitNECO(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	h := t.Features.Cols
	ks, maxLogits := make([]int, len(grid)), make([]bool, len(grid))
	for i, p := range grid {
		r := p.Reader()
		share := r.NonNegative("k", 0)
		maxLogits[i] = r.Bool("max_logit", false)
		if err := r.Err(); err != nil {
			return nil, err
		}
		k, err := count(share, h)
		if err != nil {
			return nil, err
		}
		if k == 0 {
			k = t.Logits.Cols - 1
		}
		ks[i] = max(1, min(k, h-1))
	}
	for _, part := range []struct {
		need ood.Needs
		has  bool
	}{{ood.NeedFeatures, t.HasFeatures()}, {ood.NeedLogits, t.HasLogits()}} {
		if !part.has {
			return nil, &ood.NeedError{Method: "neco", Need: part.need, Where: "the rows to fit with"}
		}
	}
	if err := checkClasses(t.Logits.Cols); err != nil {
		return nil, err
	}
	m, err := moments(ctx, t.Features, "neco")
	if err != nil {
		return nil, err
	}
	mean, correlation := m.Mean(), m.Covariance()
	scale := make([]float64, h)
	for j := range scale {
		deviation := math.Sqrt(max(correlation.At(j, j), 0))
		scale[j] = 1
		// Of what does not vary but for rounding, nothing is made.
		if deviation > math.Abs(mean[j])/(1<<24) {
			scale[j] = 1 / deviation
		}
	}
	for i := range h {
		for j := i; j < h; j++ {
			correlation.SetSym(i, j, correlation.At(i, j)*scale[i]*scale[j])
		}
	}
	s, err := newSpectrum(correlation)
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, k := range ks {
		c := newMatrix64(h, k)
		for r := range h {
			for j, v := range s.vectors.RawRowView(r)[h-k:] {
				c.Data[r*k+j] = scale[r] * v
			}
		}
		scorers[i] = neco{mean, scale, c, t.Logits.Cols, maxLogits[i]}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s neco) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.mean), "features"); err != nil {
		return nil, err
	}
	if err := checkWidth(b.Logits, s.classes, "logits"); err != nil {
		return nil, err
	}
	if b.Logits.Rows != b.Features.Rows {
		return nil, fmt.Errorf("%d rows of features but %d of logits", b.Features.Rows, b.Logits.Rows)
	}
	dst = scores(dst, b.Features.Rows)
	err := project(ctx, b.Features, s.mean, s.components, func(i int, y []float64) {
		var all float64
		for j, v := range row(b.Features, i) {
			z := (float64(v) - s.mean[j]) * s.scale[j]
			all += z * z
		}
		dst[i] = 0
		if all != 0 {
			dst[i] = -math.Sqrt(squaredNorm(y) / all)
		}
		if s.maxLogit {
			dst[i] *= newSoftmax(row(b.Logits, i), 1).max
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s neco) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.components.Cols), "classes": float64(s.classes), "max_logit": s.maxLogit},
		Arrays: map[string]heads.Array{
			"mean": heads.Vector(s.mean), "scale": heads.Vector(s.scale), "components": matrixArray(s.components),
		},
	}
}
