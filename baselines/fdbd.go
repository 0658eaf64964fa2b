package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// FDBD scores with distances to decision boundaries, relative to how far the
// features are out.
var FDBD = ood.Method{
	Name: "fdbd",
	Doc: "Minus the mean of (z_y − z_k)/‖w_y − w_k‖ over all classes k but the predicted one, y: the distances from the features to the " +
		"last layer's decision boundaries, divided by the features' distance from the training mean, or by their norm where centred is false.",
	Ref:     "Liu & Qin 2024, arXiv:2312.11536",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"centred": true},
	Grid:    []ood.Params{{"centred": true}, {"centred": false}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		centred := r.Bool("centred", true)
		if err := r.Err(); err != nil {
			return nil, err
		}
		l, err := newLastLayer(t, "fdbd")
		if err != nil {
			return nil, err
		}
		origin := make([]float64, t.Features.Cols)
		if centred {
			origin = columnMeans(t.Features)
		}
		return fdbd{newBoundaries(l), origin}, ctx.Err()
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		l, err := restoreLast(st)
		if err != nil {
			return nil, err
		}
		origin, err := restoreMean(st, "origin", l.weight.Cols)
		if err != nil {
			return nil, err
		}
		return fdbd{newBoundaries(l), origin}, nil
	},
}

type fdbd struct {
	boundaries
	origin []float64
}

// Score implements ood.Scorer.
func (s fdbd) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	dst = scores(dst, b.Len())
	z := make([]float64, s.weight.Rows)
	err := s.each(ctx, b, func(first int, phi, product blas32.General) {
		for i := range phi.Rows {
			y := s.predict(z, row(product, i))
			var sum, square float64
			for k, d := range s.from(y) {
				sum += (z[y] - z[k]) / d
			}
			for j, v := range row(phi, i) {
				d := float64(v) - s.origin[j]
				square += d * d
			}
			out := math.Sqrt(square)
			dst[first+i] = -sum / float64(len(z)-1) / max(out, math.SmallestNonzeroFloat32)
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s fdbd) State() heads.State {
	st := s.state(nil)
	st.Arrays["origin"] = heads.Vector(s.origin)
	return st
}
