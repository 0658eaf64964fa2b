package baselines

import (
	"context"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Largest scores with the largest softmax probability or logit, negated.
var Largest = ood.Method{
	Name:    "largest",
	Doc:     "Minus the largest entry of softmax(logits / temperature), or of the logits themselves.",
	Ref:     "Hendrycks & Gimpel 2017, arXiv:1610.02136; on logits: Hendrycks et al. 2022, arXiv:1911.11132",
	Needs:   ood.NeedLogits,
	Default: ood.Params{"temperature": 1.},
	Grid: []ood.Params{
		{"temperature": 1.}, {"temperature": 2.}, {"temperature": 10.}, {"logits": true},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return fitLogits(ctx, t, p, true, minusLargest)
	},
	Restore: func(s heads.State) (ood.Scorer, error) { return restoreLogits(s, true, minusLargest) },
}

func minusLargest(z []float32, temperature float64) float64 {
	if temperature == 0 {
		return -float64(slices.Max(z))
	}
	return -newSoftmax(z, temperature).largest()
}
