package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// ReAct clips features that are larger than is usual in training.
var ReAct = ood.Method{
	Name: "react",
	Doc: "Energy of the logits after features are clipped from above at a percentile of all features of all training rows. Applied to the " +
		"features that the last layer takes, averaged over space.",
	Ref:     "Sun, Guo & Li 2021, arXiv:2111.12797",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"percentile": 90.},
	Grid:    percentileGrid(85, 90, 95, 99),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitReAct(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitReAct,
	Restore: func(st heads.State) (ood.Scorer, error) {
		l, err := restoreLast(st)
		if err != nil {
			return nil, err
		}
		clip, err := st.Number("clip")
		if err != nil {
			return nil, err
		}
		if math.IsNaN(clip) || math.IsInf(clip, 0) {
			return nil, fmt.Errorf("parameter %q must be finite, not %v", "clip", clip)
		}
		return newReAct(l, clip), nil
	},
}

func fitReAct(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	percentiles := make([]float64, len(grid))
	for i, p := range grid {
		var err error
		if percentiles[i], err = readPercentile(p, 90); err != nil {
			return nil, err
		}
	}
	l, err := newLastLayer(t, "react")
	if err != nil {
		return nil, err
	}
	clips, err := elementPercentiles(ctx, t.Features, percentiles)
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, clip := range clips {
		scorers[i] = newReAct(l, clip)
	}
	return scorers, nil
}

func newReAct(l lastLayer, clip float64) ood.Scorer {
	most := float32(clip)
	return reshaped{l, func(dst, phi []float32, _ []float64) float64 {
		for j, v := range phi {
			dst[j] = min(v, most)
		}
		return 1
	}, map[string]any{"clip": clip}}
}
