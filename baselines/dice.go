package baselines

import (
	"context"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// DICE keeps of the last layer the weights that matter most in training.
var DICE = ood.Method{
	Name: "dice",
	Doc: "Energy of the logits that the last layer makes with its less important weights set to 0: those whose product with the training " +
		"features' mean is not above a percentile of all such products.",
	Ref:     "Sun & Li 2022, arXiv:2111.09805",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"percentile": 90.},
	Grid:    percentileGrid(10, 30, 50, 70, 90, 99),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		percentile, err := readPercentile(p, 90)
		if err != nil {
			return nil, err
		}
		l, err := newLastLayer(t, "dice")
		if err != nil {
			return nil, err
		}
		l.sparsify(columnMeans(t.Features), percentile)
		return newDICE(l), ctx.Err()
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		l, err := restoreLast(st)
		if err != nil {
			return nil, err
		}
		return newDICE(l), nil
	},
}

// sparsify sets weights to 0 whose contribution at mean is not above a
// percentile of all.
func (l lastLayer) sparsify(mean []float64, percentile float64) {
	contributions := make([]float64, len(l.weight.Data))
	for i, w := range l.weight.Data {
		contributions[i] = float64(w) * mean[i%len(mean)]
	}
	least := linearPercentile(slices.Clone(contributions), percentile)
	for i, v := range contributions {
		if !(v > least) {
			l.weight.Data[i] = 0
		}
	}
}

func newDICE(l lastLayer) ood.Scorer {
	return reshaped{l, func(dst, phi []float32, _ []float64) float64 {
		copy(dst, phi)
		return 1
	}, nil}
}
