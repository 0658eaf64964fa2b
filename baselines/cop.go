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
	Doc: "Reconstruction error of the direction of the features: the norm of the part that their first principal components do not explain. Try it if unusual " +
		"inputs change the direction of the features more than their length. It is kernel PCA with a cosine kernel: features are scaled to unit norm and " +
		"centred. As many components are used as explain the fraction `variance`, but not all.",
	Ref:    "Fang et al. 2024, arXiv:2402.02949, CoP",
	Needs:  ood.Needs{Features: true},
	Memory: squareMatrices(eigen.Squares),
	Params: []ood.Param{varianceParam(.85, .7, .85, .9, .95, .99)},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		c, err := fitPrincipal(ctx, t, p, directionsKey{}, t.Features.Cols, unitRows)
		return &cop{c}, err
	},
	New: func() any { return &cop{} },
}

type cop struct{ principal }

type directionsKey struct{}

// unitRows returns the rows of x scaled to unit norm. Rows of zeros stay zero.
func unitRows(x blas32.General) blas64.General {
	unit := dense.Less(x, nil)
	for i := range unit.Rows {
		normalise(dense.Row(unit, i))
	}
	return unit
}

func (s *cop) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.residualNorms(dst, unitRows(b.Features))
	return nil
}

func (s *cop) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.residualNormsGraph(b.Features.Unit()), nil
}
