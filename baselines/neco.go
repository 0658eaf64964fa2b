package baselines

import (
	"cmp"
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var necoMethod = ood.Method{
	Name: "neco",
	Doc: "Minus the norm of the standardised features' projection on their first k principal components, relative to their whole norm. Try it for classifiers " +
		"that fit their training rows almost perfectly, because it relies on neural collapse. max_logit=true multiplies it by the largest logit, which the " +
		"authors do for all networks except ResNets. k below 1 is a fraction of the features. k=0 means one less than the number of logits, the dimension of " +
		"the simplex of class means under neural collapse. k is less than the number of features.",
	Ref:    "Ben Ammar et al. 2024, arXiv:2310.06823, eq. 6",
	Needs:  ood.Needs{Features: true, Logits: true},
	Memory: squareMatrices(eigen.Squares),
	Params: []ood.Param{{Name: "max_logit", Default: false, Sweep: []any{false, true}}, {Name: "k", Default: 0, Takes: "share", Sweep: []any{0, .25, .5, 100}}},
	Fit:    fitNECO,
	New:    func() any { return &neco{} },
}

type neco struct {
	Mean       []float64      `state:"mean[features]"`
	Scale      []float64      `state:"scale[features]"`
	Components blas64.General `state:"components[features,k]"` // principal components of the standardised features, multiplied by Scale
	MaxLogit   bool           `state:"max_logit"`
}

// standardised holds the mean of each feature, the factor that scales it to variance 1, and
// the spectrum of the correlations.
type standardised struct {
	mean, scale     []float64 // one element per feature
	*eigen.Spectrum           // eigendecomposition of the correlation matrix
}

func fitNECO(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	type key struct{}
	s, err := memo.Cached(ctx, t.Batch, key{}, func() (*standardised, error) { return standardise(ctx, t) })
	if err != nil {
		return nil, err
	}
	h := t.Features.Cols
	k := max(1, min(cmp.Or(p.Count("k", h), t.Logits.Cols-1), h-1))
	components := s.Components(h-k, k)
	for i, scale := range s.scale {
		blas64.Scal(scale, dense.Vector(dense.Row(components, i)))
	}
	return &neco{s.mean, s.scale, components, p["max_logit"].(bool)}, nil
}

// standardise returns the means, the factors and the spectrum of the training features.
func standardise(ctx context.Context, t ood.Training) (*standardised, error) {
	m, err := memo.Moments(ctx, t, false)
	if err != nil {
		return nil, err
	}
	mean, correlation := m.Mean(), m.Covariance()
	scale := make([]float64, len(mean))
	for j := range scale {
		deviation := math.Sqrt(max(correlation.At(j, j), 0))
		scale[j] = 1
		// A feature that varies only by rounding keeps scale 1, so that its noise is not
		// amplified.
		if deviation > math.Abs(mean[j])/(1<<24) {
			scale[j] = 1 / deviation
		}
	}
	for i := range scale {
		for j := i; j < len(scale); j++ {
			correlation.SetSym(i, j, correlation.At(i, j)*scale[i]*scale[j])
		}
	}
	s, err := eigen.NewSpectrum(correlation)
	return &standardised{mean, scale, s}, err
}

func (s *neco) Score(_ context.Context, dst []float64, b ood.Batch) error {
	y := dense.Project(b.Features, s.Mean, s.Components)
	for i := range dst {
		var square float64
		for j, v := range row(b.Features, i) {
			z := (float64(v) - s.Mean[j]) * s.Scale[j]
			square += z * z
		}
		dst[i] = 0
		if square != 0 {
			dst[i] = -math.Sqrt(dense.SquaredNorm(dense.Row(y, i)) / square)
		}
		if s.MaxLogit {
			dst[i] *= softmax.New(row(b.Logits, i), 1).Max
		}
	}
	return nil
}

func (s *neco) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := b.Features.Double().Sub(s.Mean)
	score := x.MatMul(s.Components).SumSquares().Div(x.Mul(s.Scale).SumSquares().Max(1e-300)).Sqrt().Neg()
	if s.MaxLogit {
		return score.Mul(b.Logits.RowMax()), nil
	}
	return score, nil
}
