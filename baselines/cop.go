package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CoP scores with the reconstruction error of kernel PCA under a cosine kernel.
var CoP = ood.Method{
	Name: "cop",
	Doc: "Norm of what remains of the features, scaled to unit norm and centred, outside the first principal components of the " +
		"training features, as many as explain the share of the variance that the parameter says: the reconstruction error of " +
		"kernel PCA under a cosine kernel. One component at least is left out.",
	Ref:     "Fang et al. 2024, arXiv:2402.02949, CoP",
	Needs:   ood.NeedFeatures,
	Memory:  squares(eigenSquares),
	Default: ood.Params{"variance": .85},
	Grid:    []ood.Params{{"variance": .7}, {"variance": .85}, {"variance": .9}, {"variance": .95}, {"variance": .99}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitCoP(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitCoP,
	Restore: func(st heads.State) (ood.Scorer, error) { return restoreKernelPCA(st, false) },
}

func fitCoP(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	shares := make([]float64, len(grid))
	for i, p := range grid {
		var err error
		if shares[i], err = readVariance(p.Reader(), .85); err != nil {
			return nil, err
		}
	}
	if err := checkRows(t.Features, "cop"); err != nil {
		return nil, err
	}
	return fitKernelPCA(ctx, t, kernelMap{width: t.Features.Cols}, shares)
}
