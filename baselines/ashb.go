package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// ASHB is activation shaping that leaves of each feature whether it is large.
var ASHB = ood.Method{
	Name: "ash-b",
	Doc: "Energy of the logits after activation shaping: of a row's features all below a percentile of them become 0 and the others " +
		"become equal, with the sum of all features spread over them. Made for features after a ReLU, and applied to those that the last " +
		"layer takes, averaged over space. Equal features are pruned from the last.",
	Ref:     "Djurisic, Bozanic, Ashok & Liu 2023, arXiv:2209.09858",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"percentile": 90.},
	Grid:    percentileGrid(65, 70, 75, 80, 85, 90, 95),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return fitPercentile(ctx, t, p, "ash-b", 90, newASHB)
	},
	Restore: func(st heads.State) (ood.Scorer, error) { return restoreReshaped(st, newASHB) },
}

func newASHB(h int, percentile float64) change {
	k := kept(h, percentile)
	return func(dst, phi []float32, scratch []float64) float64 {
		least, ties, all, _ := largestOf(phi, k, scratch)
		for j, v := range phi {
			dst[j] = 0
			if v == least {
				ties--
			}
			if v > least || v == least && ties >= 0 {
				dst[j] = 1
			}
		}
		return all / float64(k)
	}
}
