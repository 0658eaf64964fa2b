package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// NCI looks at what neural collapse does to features: they point along the
// weights of their class, and away from the origin.
var NCI = ood.Method{
	Name: "nci",
	Doc: "Minus the length of the predicted class's weights projected on φ − μ, with μ the mean of the training features, and minus " +
		"alpha·‖φ‖₁: features in-domain lie along the weights of their class, and far from the origin.",
	Ref:     "Liu & Qin 2025, arXiv:2311.01479",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"alpha": 1e-4},
	Grid:    []ood.Params{{"alpha": 1e-4}, {"alpha": 1e-3}, {"alpha": 1e-2}, {"alpha": 1e-1}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		alpha := r.NonNegative("alpha", 1e-4)
		if err := r.Err(); err != nil {
			return nil, err
		}
		l, err := newLastLayer(t, "nci")
		if err != nil {
			return nil, err
		}
		return nci{l, columnMeans(t.Features), alpha}, ctx.Err()
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		l, err := restoreLast(st)
		if err != nil {
			return nil, err
		}
		mean, err := restoreMean(st, "mean", l.weight.Cols)
		if err != nil {
			return nil, err
		}
		alpha, err := nonNegative(st, "alpha")
		if err != nil {
			return nil, err
		}
		return nci{l, mean, alpha}, nil
	},
}

type nci struct {
	lastLayer
	mean  []float64 // of the training features
	alpha float64
}

// Score implements ood.Scorer.
func (s nci) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	dst = scores(dst, b.Len())
	z := make([]float64, s.weight.Rows)
	err := s.each(ctx, b, func(first int, phi, product blas32.General) {
		for i := range phi.Rows {
			y := s.predict(z, row(product, i))
			w := row(s.weight, y)
			var dot, square, size float64
			for j, v := range row(phi, i) {
				d := float64(v) - s.mean[j]
				dot += float64(w[j]) * d
				square += d * d
				size += math.Abs(float64(v))
			}
			out := math.Sqrt(square)
			dst[first+i] = -dot/max(out, math.SmallestNonzeroFloat32) - s.alpha*size
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s nci) State() heads.State {
	st := s.state(map[string]any{"alpha": s.alpha})
	st.Arrays["mean"] = heads.Vector(s.mean)
	return st
}
