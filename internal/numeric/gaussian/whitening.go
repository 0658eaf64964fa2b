package gaussian

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// ErrNoVariance reports that the rows are constant.
var ErrNoVariance = errors.New("the training features do not vary: there is no covariance to measure distances by")

// newMatrix returns m in float32 if single is true, and in float64 otherwise.
func newMatrix(m blas64.General, single bool) rows.Matrix {
	if !single {
		return rows.Matrix{Rows: m.Rows, Cols: m.Cols, Double: m.Data}
	}
	return rows.Matrix{Rows: m.Rows, Cols: m.Cols, Single: dense.Single(m.Data)}
}

// toDouble returns m in float64.
func toDouble(m rows.Matrix) blas64.General {
	d := blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: m.Double}
	if m.Single != nil {
		d = dense.New(m.Rows, m.Cols)
		for i, v := range m.Single {
			d.Data[i] = float64(v)
		}
	}
	return d
}

// Whitening maps rows x to (x − mean)·P. In this space, Mahalanobis distances are Euclidean,
// because PPᵀ is the inverse or pseudo-inverse of a covariance.
type Whitening struct {
	Mean []float64 `state:"mean[h]"`
	// Projection is P, h×r. It is in float32 if the rounding error of products is still small
	// compared with the unit of distance.
	Projection rows.Matrix `state:"projection[h,r]"`
}

// NewWhitening inverts (1−s)Σ + s·γ̄·I. Σ is the covariance, s is the shrinkage in [0,1],
// and γ̄ is the mean of the diagonal of Σ (Ledoit & Wolf 2004). It leaves out directions in
// which rows do not vary, unless the shrinkage is large enough to make the matrix
// invertible.
func NewWhitening(mean []float64, covariance *mat.SymDense, shrinkage float64) (Whitening, error) {
	h := len(mean)
	average := mat.Trace(covariance) / float64(h)
	if !(average > 0) {
		return Whitening{}, ErrNoVariance
	}
	// Features are float32, so rounding alone gives them a variance of about 2⁻⁴⁸ of their
	// squares. Shrinkage must exceed this noise for the largest possible eigenvalue, which is
	// at most the trace.
	if noise := float64(h) * 0x1p-48 * float64(h) * average; shrinkage*average > noise {
		shrunk := mat.NewSymDense(h, nil)
		shrunk.ScaleSym(1-shrinkage, covariance)
		for i := range h {
			shrunk.SetSym(i, i, shrunk.At(i, i)+shrinkage*average)
		}
		if p, ok := dense.InverseRoot(shrunk); ok {
			return newWhitening(mean, p, covariance), nil
		}
	}
	values, vectors, err := eigen.Sym(covariance)
	if err != nil {
		return Whitening{}, fmt.Errorf("second moments of the features: %w", err)
	}
	noise := float64(h) * 0x1p-48 * values[h-1]
	first := h
	for first > 0 && (1-shrinkage)*max(values[first-1], 0)+shrinkage*average > noise {
		first--
	}
	p := dense.New(h, h-first)
	for i := range h {
		for k := range p.Cols {
			p.Data[i*p.Stride+k] = vectors.At(i, first+k) / math.Sqrt((1-shrinkage)*max(values[first+k], 0)+shrinkage*average)
		}
	}
	return newWhitening(mean, p, covariance), nil
}

const (
	// maxAmplification limits the use of float32. Each column of P combines the features
	// into one number of variance 1. The variances of the single terms may sum to more,
	// because correlated terms cancel. If this sum, averaged over the columns, is at most
	// maxAmplification, the rounding error of a whitened variance is about 1e-5.
	maxAmplification = 1e4
	// minSingle is the smallest number of elements of P for which float32 saves time.
	minSingle = 1 << 12
)

func newWhitening(mean []float64, p blas64.General, covariance *mat.SymDense) Whitening {
	var sum float64
	for i := range p.Rows {
		sum += covariance.At(i, i) * dense.SquaredNorm(dense.Row(p, i))
	}
	return Whitening{mean, newMatrix(p, len(p.Data) >= minSingle && sum <= maxAmplification*float64(p.Cols))}
}

// Distances sets dst to the squared Mahalanobis distance of each row of x, n×h, to the mean.
func (w Whitening) Distances(ctx context.Context, dst []float64, x blas32.General) error {
	origin := newMatrix(dense.New(1, w.Projection.Cols), w.Projection.Single != nil)
	return newClasses(w, origin).Nearest(ctx, dst, x)
}

// graph writes the whitening of x as graph nodes.
func (w Whitening) graph(x graph.Tensor) graph.Tensor {
	return x.Double().Sub(w.Mean).MatMul(w.Projection)
}

// DistancesGraph writes the computation of Distances as graph nodes. x is n×h.
func (w Whitening) DistancesGraph(x graph.Tensor) graph.Tensor {
	return w.graph(x).Double().SumSquares()
}
