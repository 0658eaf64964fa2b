package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/gaussian"
	"github.com/attach-uncertainty/attach/ood"
)

// Mahalanobis scores with the distance to the nearest class, one Gaussian each
// with a covariance that all share.
var Mahalanobis = ood.Method{
	Name: "mahalanobis",
	Doc: "Squared Mahalanobis distance to the nearest class mean, with one covariance for all classes: that of the training features " +
		"about their class's mean. Classes are the labels where there are any, else the largest logit. The covariance is " +
		"pseudo-inverted, so that directions in which no training row varies do not count; shrinkage above 0 mixes that share of " +
		"a multiple of the identity into it, and then they do.",
	Ref:     "Lee et al. 2018, arXiv:1807.03888, eq. 2, on the features alone; shrinkage: Ledoit & Wolf 2004",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"shrinkage": 0.},
	Grid:    []ood.Params{{"shrinkage": 0.}, {"shrinkage": .01}, {"shrinkage": .1}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitMahalanobis(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitMahalanobis,
	Restore: func(s heads.State) (ood.Scorer, error) {
		c, err := restoreClasses(s)
		return mahalanobis{c}, err
	},
}

type mahalanobis struct{ gaussian.Classes }

func fitMahalanobis(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	shrinkages, err := readShrinkages(grid, 0)
	if err != nil {
		return nil, err
	}
	if err := checkFeatures(t, "mahalanobis"); err != nil {
		return nil, err
	}
	fitted, err := cloud{layer: lastLayerFeatures}.fit(ctx, t, shrinkages)
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, c := range fitted {
		scorers[i] = mahalanobis{c}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s mahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.Mean), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	return dst, s.Nearest(ctx, dst, b.Features)
}

// State implements heads.Stater.
func (s mahalanobis) State() heads.State {
	st := heads.State{Params: map[string]any{}, Arrays: map[string]heads.Array{}}
	storeClasses(st, s.Classes)
	return st
}
