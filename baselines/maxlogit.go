package baselines

import (
	"context"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// MaxLogit scores with the largest logit, negated.
var MaxLogit = ood.Method{
	Name: "max-logit",
	Doc: "Minus the largest logit. Unlike a softmax, it keeps how far all logits are from zero. " +
		"The method \"largest\" has it too, as one entry of its grid.",
	Ref:   "Hendrycks et al. 2022, arXiv:1911.11132",
	Needs: ood.NeedLogits,
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		if err := p.Reader().Err(); err != nil {
			return nil, err
		}
		return fitLogits(ctx, t, ood.Params{"logits": true}, true, minusMaxLogit)
	},
	Restore: func(s heads.State) (ood.Scorer, error) { return restoreLogits(s, true, minusMaxLogit) },
}

func minusMaxLogit(z []float32, _ float64) float64 { return -float64(slices.Max(z)) }
