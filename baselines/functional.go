package baselines

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Functional scores with the functional margin, negated: how far the largest
// probability or logit is ahead of the second.
var Functional = ood.Method{
	Name: "functional",
	Doc: "Minus the difference between the two largest entries of softmax(logits / temperature), " +
		"or of the logits themselves.",
	Ref:     "functional margin, Tagasovska & Lopez-Paz 2019, table 2",
	Needs:   ood.NeedLogits,
	Default: ood.Params{"temperature": 1.},
	Grid: []ood.Params{
		{"temperature": 1.}, {"temperature": 2.}, {"temperature": 10.}, {"logits": true},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return fitLogits(ctx, t, p, true, minusMargin)
	},
	Restore: func(s heads.State) (ood.Scorer, error) { return restoreLogits(s, true, minusMargin) },
}

func minusMargin(z []float32, temperature float64) float64 {
	first, second := math.Inf(-1), math.Inf(-1)
	for _, v := range z {
		v := float64(v)
		switch {
		case math.IsNaN(v):
			return v
		case v > first:
			first, second = v, first
		case v > second:
			second = v
		}
	}
	if temperature == 0 {
		return second - first
	}
	return math.Expm1((second-first)/temperature) * newSoftmax(z, temperature).largest()
}
