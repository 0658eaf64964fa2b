package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var covarianceMethod = ood.Method{
	Name: "covariance",
	Doc: "Variance, up to a constant, of a Bayesian linear regression on the features: large in directions in which training rows hardly vary. Use it as a fast " +
		"baseline, for regressors too. The score is φᵀ(FᵀF+λI)⁻¹φ, where F are the training features.",
	Ref:    "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:  ood.Needs{Features: true},
	Memory: squareMatrices(eigen.Squares + 1),
	Params: []ood.Param{{Name: "lambda", Default: 1e-3, Takes: "positive", Sweep: []any{1e-5, 1e-3, 1e-1, 1}}},
	Fit:    fitCovariance,
	New:    func() any { return &covariance{} },
}

// covariance scores a row φ with ‖φP‖², where PPᵀ = (FᵀF+λI)⁻¹ for the training features F.
type covariance struct {
	Projection blas64.General `state:"projection[features,features]"`
}

func fitCovariance(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	_, s, err := memo.Spectrum(ctx, t, false, false)
	if err != nil {
		return nil, err
	}
	projection := s.Components(0, len(s.Values))
	for i := range projection.Rows {
		for j, v := range s.Values {
			dense.Row(projection, i)[j] /= math.Sqrt(float64(t.Len())*v + p.Float("lambda"))
		}
	}
	return &covariance{projection}, nil
}

func (s *covariance) Score(_ context.Context, dst []float64, b ood.Batch) error {
	y := dense.Project(b.Features, nil, s.Projection)
	for i := range dst {
		dst[i] = dense.SquaredNorm(dense.Row(y, i))
	}
	return nil
}

func (s *covariance) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return b.Features.Double().MatMul(s.Projection).SumSquares(), nil
}
