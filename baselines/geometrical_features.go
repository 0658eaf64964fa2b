package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// GeometricalFeatures is the distance from the features to where the last
// layer predicts another class, which is exact.
var GeometricalFeatures = ood.Method{
	Name: "geometrical-features",
	Doc: "Minus the Euclidean distance from the features to the nearest decision boundary of the last layer: the least of " +
		"(z_y − z_k)/‖w_y − w_k‖ over all classes k, with y the predicted class.",
	Ref:   "after the geometrical margin of Tagasovska & Lopez-Paz 2019, table 2; Elsayed et al. 2018, arXiv:1803.05598",
	Needs: ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		if err := p.Reader().Err(); err != nil {
			return nil, err
		}
		l, err := newLastLayer(t, "geometrical-features")
		if err != nil {
			return nil, err
		}
		return newGeometricalFeatures(l), ctx.Err()
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		l, err := restoreLast(st)
		if err != nil {
			return nil, err
		}
		return newGeometricalFeatures(l), nil
	},
}

type geometricalFeatures struct{ boundaries }

func newGeometricalFeatures(l lastLayer) geometricalFeatures {
	return geometricalFeatures{newBoundaries(l)}
}

// Score implements ood.Scorer.
func (s geometricalFeatures) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	dst = scores(dst, b.Len())
	z := make([]float64, s.weight.Rows)
	err := s.each(ctx, b, func(first int, phi, product blas32.General) {
		for i := range phi.Rows {
			dst[first+i] = -s.nearest(z, s.predict(z, row(product, i)))
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

func (s geometricalFeatures) nearest(z []float64, top int) float64 {
	least := math.Inf(1)
	for k, d := range s.from(top) {
		if k != top {
			least = min(least, (z[top]-z[k])/d)
		}
	}
	return least
}

// State implements heads.Stater.
func (s geometricalFeatures) State() heads.State { return s.state(nil) }
