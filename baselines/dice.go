package baselines

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var diceMethod = ood.Method{
	Name: "dice",
	Doc: "Energy of the logits after the less important weights of the last layer are set to 0. Try it if the last layer reads many features that hardly matter " +
		"for a class. A weight is less important if its product with the mean of the training features does not exceed a percentile of all such products.",
	Ref:    "Sun & Li 2022, arXiv:2111.09805",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Params: []ood.Param{percentile(90, 10, 30, 50, 70, 90, 99)},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		s := &dice{newLastLayer(ctx, t)}
		s.Weight = clone(s.Weight)
		s.sparsify(featureMeans(ctx, t), p.Float("percentile"))
		return s, nil
	},
	New: func() any { return &dice{} },
}

type dice struct{ lastLayer }

// sparsify sets less important weights to 0. The contribution of a weight is its product
// with the mean of its feature. A weight is less important if its contribution does not
// exceed a percentile of all contributions.
func (s *dice) sparsify(mean []float64, percentile float64) {
	contributions := make([]float64, len(s.Weight.Data))
	for i, w := range s.Weight.Data {
		contributions[i] = float64(w) * mean[i%len(mean)]
	}
	threshold := quantile.Percentile(slices.Clone(contributions), percentile)
	for i, v := range contributions {
		if !(v > threshold) {
			s.Weight.Data[i] = 0
		}
	}
}

func (s *dice) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for i, z := range s.logits(ctx, b) {
		dst[i] = -floats.LogSumExp(z)
	}
	return nil
}

func (s *dice) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.energyGraph(b.Features), nil
}
