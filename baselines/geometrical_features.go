package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var geometricalFeaturesMethod = ood.Method{
	Name: "geometrical-features",
	Doc: "Minus the Euclidean distance from the features to the nearest decision boundary of the last layer. Use it in place of geometrical if the network " +
		"cannot be differentiated, or if scores must be fast. The distance is the smallest (z_y − z_k)/‖w_y − w_k‖ over all classes k other than the predicted " +
		"class y.",
	Ref:    "after the geometrical margin of Tagasovska & Lopez-Paz 2019, table 2; Elsayed et al. 2018, arXiv:1803.05598",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Memory: classMatrixMemory,
	Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		return &geometricalFeatures{boundaries{lastLayer: newLastLayer(ctx, t)}}, nil
	},
	New: func() any { return &geometricalFeatures{} },
}

type geometricalFeatures struct{ boundaries }

func (s *geometricalFeatures) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for i, z := range s.logits(ctx, b) {
		y := floats.MaxIdx(z)
		nearest := math.Inf(1)
		for k, d := range s.distancesFrom(y) {
			if k != y {
				nearest = min(nearest, (z[y]-z[k])/d)
			}
		}
		dst[i] = -nearest
	}
	return nil
}

func (s *geometricalFeatures) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	z := s.logitsGraph(b.Features)
	s.distancesFrom(0) // fills s.distances
	class := z.ArgMax()
	return class.NotOneHot(z.Cols()).Choose(z.RowMax().Sub(z).Div(class.Rows(s.distances)), math.MaxFloat64).RowMin().Neg(), nil
}
