package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var copMethod = ood.Method{
	Name: "cop",
	Doc: "Norm of what remains of the features, scaled to unit norm and centred, outside the first principal components of the " +
		"training features, as many as explain the share of the variance that the parameter says: the reconstruction error of " +
		"kernel PCA under a cosine kernel. One component at least is left out.",
	Ref:    "Fang et al. 2024, arXiv:2402.02949, CoP",
	Needs:  ood.Needs{Features: true},
	Memory: squares(eigen.Squares),
	Params: []ood.Param{explained(.85, .7, .85, .9, .95, .99)},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		c, err := fitPrincipal(ctx, t, p, directionsKey{}, t.Features.Cols, directions)
		return &cop{c}, err
	},
	New: func() any { return &cop{} },
}

type cop struct{ principal }

type directionsKey struct{}

// directions are the rows of x scaled to unit norm; rows of zeros stay zero.
func directions(x blas32.General) blas64.General {
	unit := dense.Less(x, nil)
	for i := range unit.Rows {
		normalise(dense.Row(unit, i))
	}
	return unit
}

func (s *cop) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.left(dst, directions(b.Features))
	return nil
}

func (s *cop) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.leftGraph(b.Features.Unit()), nil
}
