package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
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
	Memory:  squares(eigenSquares + 1),
	Default: ood.Params{"shrinkage": 0.},
	Grid:    []ood.Params{{"shrinkage": 0.}, {"shrinkage": .01}, {"shrinkage": .1}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitMahalanobis(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitMahalanobis,
	Restore: func(st heads.State) (ood.Scorer, error) { return restoreMahalanobis(st) },
}

type mahalanobis struct {
	whitening
	classes blas64.General // c×r, whitened class means
}

func fitMahalanobis(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	shrinkages, err := readShrinkages(grid, 0)
	if err != nil {
		return nil, err
	}
	fitted, _, err := fitClassMeans(ctx, t, shrinkages, "mahalanobis")
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, m := range fitted {
		scorers[i] = m
	}
	return scorers, nil
}

func readShrinkages(grid []ood.Params, otherwise float64) ([]float64, error) {
	shrinkages := make([]float64, len(grid))
	for i, p := range grid {
		r := p.Reader()
		shrinkages[i] = r.NonNegative("shrinkage", otherwise)
		if err := r.Err(); err != nil {
			return nil, err
		}
		if shrinkages[i] > 1 {
			return nil, fmt.Errorf("parameter %q must be in [0,1], not %v", "shrinkage", shrinkages[i])
		}
	}
	return shrinkages, nil
}

// fitClassMeans fits one covariance about class means, inverted with every
// shrinkage, and returns the moments it comes from.
func fitClassMeans(ctx context.Context, t ood.Training, shrinkages []float64, method string) ([]mahalanobis, *heads.ClassMoments, error) {
	if !t.HasFeatures() {
		return nil, nil, &ood.NeedError{Method: method, Need: ood.NeedFeatures, Where: "the rows to fit with"}
	}
	if err := checkRows(t.Features, method); err != nil {
		return nil, nil, err
	}
	classes, err := classesOf(t)
	if err != nil {
		return nil, nil, err
	}
	moments, err := classes.moments(ctx, t.Features)
	if err != nil {
		return nil, nil, err
	}
	s, err := newSpectrum(moments.Within())
	if err != nil {
		return nil, nil, err
	}
	mean, means := moments.Mean(), moments.Means()
	fitted := make([]mahalanobis, len(shrinkages))
	for i, shrinkage := range shrinkages {
		w, err := newWhitening(mean, s, shrinkage)
		if err != nil {
			return nil, nil, fmt.Errorf("within their classes, %w", err)
		}
		m := mahalanobis{w, newMatrix64(means.Rows, w.projection.Cols)}
		for y := range means.Rows {
			copy(m.classes.Data[y*m.classes.Stride:], w.apply(means.Data[y*means.Stride:(y+1)*means.Stride]))
		}
		fitted[i] = m
	}
	return fitted, moments, nil
}

// Score implements ood.Scorer.
func (s mahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.mean), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	err := project(ctx, b.Features, s.mean, s.projection, func(i int, y []float64) { dst[i] = s.nearest(y) })
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// nearest is the squared distance from a whitened row to the nearest class.
func (s mahalanobis) nearest(y []float64) float64 {
	least := math.Inf(1)
	for c := range s.classes.Rows {
		var d float64
		for k, v := range s.classes.Data[c*s.classes.Stride : c*s.classes.Stride+s.classes.Cols] {
			d += (y[k] - v) * (y[k] - v)
		}
		least = min(least, d)
	}
	return least
}

// State implements heads.Stater.
func (s mahalanobis) State() heads.State {
	st := heads.State{Params: map[string]any{"classes": float64(s.classes.Rows)}, Arrays: map[string]heads.Array{}}
	s.store(st, "")
	st.Arrays["classes"] = matrixArray(s.classes)
	return st
}

func restoreMahalanobis(st heads.State) (mahalanobis, error) {
	var s mahalanobis
	classes, err := whole(st, "classes", 1)
	if err != nil {
		return s, err
	}
	if s.whitening, err = restoreWhitening(st, ""); err != nil {
		return s, err
	}
	s.classes, err = matrix64(st, "classes", classes, s.projection.Cols)
	return s, err
}
