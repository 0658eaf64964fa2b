package baselines

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Energy scores with the free energy of the logits.
var Energy = ood.Method{
	Name:    "energy",
	Doc:     "The free energy −temperature · log Σ exp(logits / temperature), which is lower in-domain.",
	Ref:     "Liu, Wang, Owens & Li 2020, arXiv:2010.03759",
	Needs:   ood.NeedLogits,
	Default: ood.Params{"temperature": 1.},
	Grid:    []ood.Params{{"temperature": 1.}, {"temperature": 10.}, {"temperature": 100.}, {"temperature": 1000.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return fitLogits(ctx, t, p, false, energy)
	},
	Restore: func(s heads.State) (ood.Scorer, error) { return restoreLogits(s, false, energy) },
}

func energy(z []float32, temperature float64) float64 {
	s := newSoftmax(z, temperature)
	return -temperature * (s.max + math.Log1p(s.excess))
}
