package baselines

import (
	"context"
	"errors"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// principal holds q principal components of rows that were mapped to m dimensions. Inner
// products of mapped rows equal or approximate a kernel.
type principal struct {
	Mean       []float64      `state:"mean[m]"` // mean of the mapped training rows
	Components blas64.General `state:"components[m,q]"`
}

// varianceParam returns the parameter "variance": the fraction of variance that the
// components explain.
func varianceParam(defaultValue float64, sweep ...any) ood.Param {
	return ood.Param{Name: "variance", Default: defaultValue, Takes: "positive,below=1", Sweep: sweep}
}

// mappedRows holds the mean and the principal components of the mapped training rows.
type mappedRows struct {
	mean []float64 // mean of the mapped rows
	*eigen.Spectrum
}

// fitPrincipal fits principal components to the training rows after mapRows has mapped them
// to m dimensions. It keeps the fewest components that explain the fraction "variance", but
// at most m−1 of them, and at least one. The argument key identifies the map in the cache.
func fitPrincipal(ctx context.Context, t ood.Training, p ood.Params, key any, m int, mapRows func(blas32.General) blas64.General) (principal, error) {
	s, err := memo.Cached(ctx, t.Batch, key, func() (*mappedRows, error) { return newMappedRows(ctx, t, m, mapRows) })
	if err != nil {
		return principal{}, err
	}
	q, sum := 0, 0.
	for enough := p.Float("variance") * floats.Sum(s.Values); q < max(1, m-1) && sum < enough; {
		q++
		sum += s.Values[m-q]
	}
	return principal{s.mean, s.Components(m-q, q)}, nil
}

func newMappedRows(ctx context.Context, t ood.Training, m int, mapRows func(blas32.General) blas64.General) (*mappedRows, error) {
	n, mean, covariance := float64(t.Len()), make([]float64, m), mat.NewSymDense(m, nil)
	for first, x := range blocks(ctx, t.Features) {
		y := mapRows(x)
		for i := range y.Rows {
			floats.AddScaled(mean, 1/n, dense.Row(y, i))
		}
		t.Progress(.1 * float64(first) / n)
	}
	for first, x := range blocks(ctx, t.Features) {
		blas64.Syrk(blas.Trans, 1/n, subtractMean(mapRows(x), mean), 1, covariance.RawSymmetric())
		t.Progress(.1 + .5*float64(first)/n)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := eigen.NewSpectrum(covariance)
	if err != nil {
		return nil, err
	}
	// Below this limit, rows of unit norm vary by less than the resolution of float32.
	if !(floats.Sum(s.Values) > 0x1p-44) {
		return nil, errors.New("the training features all point the same way: they have no principal components")
	}
	return &mappedRows{mean, s}, nil
}

// subtractMean subtracts mean from every row of y, in place, and returns y.
func subtractMean(y blas64.General, mean []float64) blas64.General {
	for i := range y.Rows {
		floats.Sub(dense.Row(y, i), mean)
	}
	return y
}

// residualNorms writes the reconstruction error of each mapped row: the norm of its part
// that is orthogonal to the components. It overwrites the rows.
func (s principal) residualNorms(dst []float64, mapped blas64.General) {
	mapped = subtractMean(mapped, s.Mean)
	along := dense.New(mapped.Rows, s.Components.Cols)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, mapped, s.Components, 0, along)
	blas64.Gemm(blas.NoTrans, blas.Trans, -1, along, s.Components, 1, mapped)
	for i := range dst {
		dst[i] = blas64.Nrm2(dense.Vector(dense.Row(mapped, i)))
	}
}

// residualNormsGraph adds graph nodes that compute residualNorms.
func (s principal) residualNormsGraph(mapped graph.Tensor) graph.Tensor {
	mapped = mapped.Sub(s.Mean)
	components := mapped.Constant(graph.Compact(s.Components))
	return mapped.Sub(mapped.MatMul(components).MatMulT(components, len(s.Mean)).Double()).Norm()
}
