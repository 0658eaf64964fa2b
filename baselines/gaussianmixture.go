package baselines

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// GaussianMixture scores with minus the logarithm of a density.
var GaussianMixture = ood.Method{
	Name: "gaussian-mixture",
	Doc: "Minus the log density of the features under a mixture of k Gaussians with full or diagonal covariances, fitted by " +
		"expectation maximisation from k-means clusters until the mean log density changes by less than .001, or 100 times. lambda is " +
		"added to every variance. k stops at the number of distinct training rows.",
	Ref:   "Dempster, Laird & Rubin 1977; as scikit-learn's GaussianMixture",
	Needs: ood.NeedFeatures,
	Memory: func(t ood.Training, p ood.Params) float64 {
		r := p.Reader()
		if r.OneOf("covariance", "full", "diag") == "diag" {
			return 0
		}
		// The mixture before and after a step.
		return (2*min(r.Float("k", 10), float64(t.Len())) + 4) * square(t.Features.Cols)
	},
	Default: ood.Params{"k": 10., "covariance": "full", "lambda": 1e-6},
	Grid: []ood.Params{
		{"k": 1., "covariance": "full"}, {"k": 3., "covariance": "full"}, {"k": 10., "covariance": "full"},
		{"k": 1., "covariance": "diag"}, {"k": 3., "covariance": "diag"}, {"k": 10., "covariance": "diag"},
	},
	Fit:     fitGaussianMixture,
	Restore: restoreGaussianMixture,
}

// As scikit-learn stops.
const (
	mixtureSteps     = 100
	mixtureTolerance = 1e-3
)

type gaussianMixture struct{ *mixture }

func fitGaussianMixture(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	r := p.Reader()
	k := r.Count("k", 10)
	full := r.OneOf("covariance", "full", "diag") == "full"
	lambda := r.Positive("lambda", 1e-6)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := checkRows(t.Features, "gaussian-mixture"); err != nil {
		return nil, err
	}
	of, k, err := kMeans(ctx, t.Features, min(k, t.Features.Rows), rand.New(rand.NewPCG(t.Seed, 0)))
	if err != nil {
		return nil, err
	}
	shares := newMatrix64(len(of), k)
	for i, c := range of {
		shares.Data[i*k+c] = 1
	}
	m, err := maximise(ctx, t.Features, shares, full, lambda)
	if err != nil {
		return nil, err
	}
	before := math.Inf(-1)
	for step := range mixtureSteps {
		if t.Progress != nil {
			t.Progress(float64(step) / mixtureSteps)
		}
		var mean float64
		err := m.each(ctx, t.Features, func(first int, joint blas64.General) {
			for i := range joint.Rows {
				z := joint.Data[i*k : (i+1)*k]
				density := logSumExp(z)
				mean += density / float64(len(of))
				for c, v := range z {
					shares.Data[(first+i)*k+c] = math.Exp(v - density)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		if m, err = maximise(ctx, t.Features, shares, full, lambda); err != nil {
			return nil, err
		}
		if math.Abs(mean-before) < mixtureTolerance {
			break
		}
		before = mean
	}
	return gaussianMixture{m}, nil
}

// Score implements ood.Scorer.
func (s gaussianMixture) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.means.Cols, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	k := s.means.Rows
	err := s.each(ctx, b.Features, func(first int, joint blas64.General) {
		for i := range joint.Rows {
			dst[first+i] = -logSumExp(joint.Data[i*k : (i+1)*k])
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s gaussianMixture) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.means.Rows), "width": float64(s.means.Cols), "full": s.full},
		Arrays: map[string]heads.Array{
			"log_weights": heads.Vector(s.logWeights), "means": matrixArray(s.means), "precisions": matrixArray(s.precisions),
		},
	}
}

func restoreGaussianMixture(st heads.State) (ood.Scorer, error) {
	var m mixture
	k, err := whole(st, "k", 1)
	if err != nil {
		return nil, err
	}
	h, err := whole(st, "width", 1)
	if err != nil {
		return nil, err
	}
	if m.full, err = st.Flag("full"); err != nil {
		return nil, err
	}
	if m.logWeights, err = st.Float64s("log_weights"); err != nil {
		return nil, err
	}
	if len(m.logWeights) != k {
		return nil, fmt.Errorf("%d weights of %d components", len(m.logWeights), k)
	}
	if m.means, err = matrix64(st, "means", k, h); err != nil {
		return nil, err
	}
	rows := k
	if m.full {
		rows = k * h
	}
	if m.precisions, err = matrix64(st, "precisions", rows, h); err != nil {
		return nil, err
	}
	m.setLogDets()
	for c, d := range m.logDets {
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return nil, fmt.Errorf("component %d has no density: its precisions must be positive", c)
		}
	}
	return gaussianMixture{&m}, nil
}
