package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads"
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
	Memory:  squares(eigenSquares + 3),
	Default: ood.Params{"shrinkage": 0.},
	Grid:    []ood.Params{{"shrinkage": 0.}, {"shrinkage": .01}, {"shrinkage": .1}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitRelativeMahalanobis(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitRelativeMahalanobis,
	Restore: func(st heads.State) (ood.Scorer, error) {
		s, err := restoreMahalanobis(st)
		if err != nil {
			return nil, err
		}
		all, err := restoreWhitening(st, "all_")
		if err != nil {
			return nil, err
		}
		if len(all.mean) != len(s.mean) {
			return nil, fmt.Errorf("classes of %d features and a whole of %d", len(s.mean), len(all.mean))
		}
		return relativeMahalanobis{s, all}, nil
	},
}

type relativeMahalanobis struct {
	mahalanobis
	all whitening
}

func fitRelativeMahalanobis(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	shrinkages, err := readShrinkages(grid, 0)
	if err != nil {
		return nil, err
	}
	fitted, m, err := fitClassMeans(ctx, t, shrinkages, "relative-mahalanobis")
	if err != nil {
		return nil, err
	}
	s, err := newSpectrum(m.Covariance())
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, shrinkage := range shrinkages {
		all, err := newWhitening(m.Mean(), s, shrinkage)
		if err != nil {
			return nil, err
		}
		scorers[i] = relativeMahalanobis{fitted[i], all}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s relativeMahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	dst, err := s.mahalanobis.Score(ctx, dst, b)
	if err != nil {
		return nil, err
	}
	err = project(ctx, b.Features, s.all.mean, s.all.projection, func(i int, y []float64) { dst[i] -= squaredNorm(y) })
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s relativeMahalanobis) State() heads.State {
	st := s.mahalanobis.State()
	s.all.store(st, "all_")
	return st
}
