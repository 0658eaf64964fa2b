package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// SCALE sharpens features without pruning any.
var SCALE = ood.Method{
	Name: "scale",
	Doc: "Energy of the logits after all of a row's features are multiplied by exp(sum of all / sum of those above a percentile of them). " +
		"Made for features after a ReLU, and applied to those that the last layer takes, averaged over space.",
	Ref:     "Xu, Chen, Franchi & Yao 2024, arXiv:2310.00227",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"percentile": 85.},
	Grid:    percentileGrid(65, 70, 75, 80, 85, 90, 95),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return fitPercentile(ctx, t, p, "scale", 85, newSCALE)
	},
	Restore: func(st heads.State) (ood.Scorer, error) { return restoreReshaped(st, newSCALE) },
}

func newSCALE(h int, percentile float64) change {
	k := kept(h, percentile)
	return func(dst, phi []float32, scratch []float64) float64 {
		_, _, all, top := largestOf(phi, k, scratch)
		copy(dst, phi)
		return sharpening(all, top, h, k)
	}
}
