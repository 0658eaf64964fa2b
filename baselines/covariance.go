package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Covariance scores with the predictive variance of a linear model.
var Covariance = ood.Method{
	Name: "covariance",
	Doc: "φᵀ(FᵀF+λI)⁻¹φ with F the training features: the variance that Bayesian linear regression " +
		"on the features has at φ, up to a constant.",
	Ref:     "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:   ood.NeedFeatures,
	Memory:  squares(eigenSquares + 1),
	Default: ood.Params{"lambda": 1e-3},
	Grid:    []ood.Params{{"lambda": 1e-5}, {"lambda": 1e-3}, {"lambda": 1e-1}, {"lambda": 1.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitCovariance(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitCovariance,
	Restore: func(s heads.State) (ood.Scorer, error) {
		h, err := whole(s, "width", 1)
		if err != nil {
			return nil, err
		}
		p, err := matrix64(s, "projection", h, h)
		if err != nil {
			return nil, err
		}
		return covariance{p}, nil
	},
}

// covariance scores with ‖φP‖², where PPᵀ = (FᵀF+λI)⁻¹.
type covariance struct {
	projection blas64.General // h×h
}

func fitCovariance(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	lambdas := make([]float64, len(grid))
	for i, p := range grid {
		r := p.Reader()
		lambdas[i] = r.Positive("lambda", 1e-3)
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	m, err := moments(ctx, t.Features, "covariance")
	if err != nil {
		return nil, err
	}
	h := m.Width()
	s, err := newSpectrum(m.SecondMoment())
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for k, lambda := range lambdas {
		p := blas64.General{Rows: h, Cols: h, Stride: h, Data: make([]float64, h*h)}
		for i := range h {
			for j := range h {
				p.Data[i*h+j] = s.vectors.At(i, j) / math.Sqrt(float64(m.N())*s.values[j]+lambda)
			}
		}
		scorers[k] = covariance{p}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s covariance) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	h := s.projection.Rows
	if err := checkWidth(b.Features, h, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	err := project(ctx, b.Features, make([]float64, h), s.projection, func(i int, y []float64) {
		dst[i] = squaredNorm(y)
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s covariance) State() heads.State {
	return heads.State{
		Params: map[string]any{"width": float64(s.projection.Rows)},
		Arrays: map[string]heads.Array{"projection": matrixArray(s.projection)},
	}
}
