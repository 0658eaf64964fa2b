package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/gaussian"
	"github.com/attach-uncertainty/attach/ood"
)

// RelativeMahalanobis scores with how much further a row is from every class
// than from the training rows as a whole.
var RelativeMahalanobis = ood.Method{
	Name: "relative-mahalanobis",
	Doc: "Squared Mahalanobis distance to the nearest class mean, as mahalanobis has it, less the one under a single Gaussian " +
		"fitted to all training features. Classes are the labels where there are any, else the largest logit.",
	Ref:     "Ren et al. 2021, arXiv:2106.09022, eq. 4",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"shrinkage": 0.},
	Grid:    []ood.Params{{"shrinkage": 0.}, {"shrinkage": .01}, {"shrinkage": .1}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitRelativeMahalanobis(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitRelativeMahalanobis,
	Restore: func(s heads.State) (ood.Scorer, error) {
		classes, err := restoreClasses(s)
		if err != nil {
			return nil, err
		}
		all, err := restoreWhitening(s, "all_")
		if err != nil {
			return nil, err
		}
		if len(all.Mean) != len(classes.Mean) {
			return nil, fmt.Errorf("classes of %d features and a whole of %d", len(classes.Mean), len(all.Mean))
		}
		return relativeMahalanobis{mahalanobis{classes}, all}, nil
	},
}

type relativeMahalanobis struct {
	mahalanobis
	all gaussian.Whitening
}

func fitRelativeMahalanobis(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	shrinkages, err := readShrinkages(grid, 0)
	if err != nil {
		return nil, err
	}
	if err := checkFeatures(t, "relative-mahalanobis"); err != nil {
		return nil, err
	}
	features := cloud{layer: lastLayerFeatures}
	fitted, err := features.fit(ctx, t, shrinkages)
	if err != nil {
		return nil, err
	}
	m, err := features.moments(ctx, t)
	if err != nil {
		return nil, err
	}
	mean, covariance := m.Mean(), m.Covariance()
	scorers := make([]ood.Scorer, len(grid))
	for i, shrinkage := range shrinkages {
		all, err := gaussian.NewWhitening(mean, covariance, shrinkage)
		if err != nil {
			return nil, err
		}
		scorers[i] = relativeMahalanobis{mahalanobis{fitted[i]}, all}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s relativeMahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	dst, err := s.mahalanobis.Score(ctx, dst, b)
	if err != nil {
		return nil, err
	}
	all := make([]float64, len(dst))
	if err := s.all.Distances(ctx, all, b.Features); err != nil {
		return nil, err
	}
	for i, d := range all {
		dst[i] -= d
	}
	return dst, nil
}

// State implements heads.Stater.
func (s relativeMahalanobis) State() heads.State {
	st := s.mahalanobis.State()
	storeWhitening(st, "all_", s.all)
	return st
}
