package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var fdbdMethod = ood.Method{
	Name: "fdbd",
	Doc: "Minus the mean distance of the features from the decision boundaries of the last layer, relative to their distance from the training mean. Try it if " +
		"scores must be fast and the file small: it stores only the last layer and one mean. The distances are (z_y − z_k)/‖w_y − w_k‖ for all classes k other " +
		"than the predicted class y. With centred=false, they are relative to the norm of the features.",
	Ref:    "Liu & Qin 2024, arXiv:2312.11536",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Memory: classMatrixMemory,
	Params: []ood.Param{{Name: "centred", Default: true, Sweep: []any{true, false}}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		s := &fdbd{boundaries{lastLayer: newLastLayer(ctx, t)}, make([]float64, t.Features.Cols)}
		if p["centred"].(bool) {
			s.Origin = featureMeans(ctx, t)
		}
		return s, nil
	},
	New: func() any { return &fdbd{} },
}

type fdbd struct {
	boundaries
	Origin []float64 `state:"origin[features]"`
}

func (s *fdbd) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for i, z := range s.logits(ctx, b) {
		y := floats.MaxIdx(z)
		var sum, square float64
		for k, d := range s.distancesFrom(y) {
			sum += (z[y] - z[k]) / d
		}
		for j, v := range row(b.Features, i) {
			d := float64(v) - s.Origin[j]
			square += d * d
		}
		distance := math.Sqrt(square)
		dst[i] = -sum / float64(len(z)-1) / max(distance, math.SmallestNonzeroFloat32)
	}
	return nil
}

func (s *fdbd) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	z := s.logitsGraph(b.Features)
	s.distancesFrom(0) // fills s.distances
	sum := z.RowMax().Sub(z).Div(z.ArgMax().Rows(s.distances)).Sum()
	distance := b.Features.Double().Sub(s.Origin).Norm().Max(math.SmallestNonzeroFloat32)
	return sum.Div(float64(1 - z.Cols())).Div(distance), nil
}
