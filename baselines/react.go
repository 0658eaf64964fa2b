package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var reactMethod = ood.Method{
	Name: "react",
	Doc: "Energy of the logits after features are clipped from above at a percentile of all features of all training rows. Try it if OOD inputs produce a few " +
		"unusually large features. It is applied to the features that enter the last layer, averaged over space.",
	Ref:    "Sun, Guo & Li 2021, arXiv:2111.12797",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Params: []ood.Param{percentile(90, 85, 90, 95, 99)},
	Fit:    fitReAct,
	New:    func() any { return &react{} },
}

type react struct {
	lastLayer
	Clip float64 `state:"clip"`
}

func fitReAct(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
	// All percentiles of a sweep are computed together, in two passes over the rows.
	clip, err := memo.OncePerKey(ctx, t, func(ood.Params) bool { return true }, func(same []ood.Params, _ func(float64)) ([]float64, error) {
		var percentiles []float64
		for _, p := range same {
			percentiles = append(percentiles, p.Float("percentile"))
		}
		return quantile.Percentiles(ctx, t.Features, percentiles)
	})
	return &react{newLastLayer(ctx, t), clip}, err
}

func (s *react) Score(_ context.Context, dst []float64, b ood.Batch) error {
	limit := float32(s.Clip)
	s.energies(dst, b.Features, func(clipped, phi []float32) float64 {
		for j, v := range phi {
			clipped[j] = min(v, limit)
		}
		return 1
	})
	return nil
}

func (s *react) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.energyGraph(b.Features.Min(s.Clip)), nil
}
