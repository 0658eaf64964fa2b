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

// ErrNoVariance reports that rows do not vary.
var ErrNoVariance = errors.New("the training features do not vary: there is no covariance to measure distances by")

func newStored(m blas64.General, single bool) rows.Matrix {
	if !single {
		return rows.Matrix{Rows: m.Rows, Cols: m.Cols, Double: m.Data}
	}
	return rows.Matrix{Rows: m.Rows, Cols: m.Cols, Single: dense.Single(m.Data)}
}

func double(m rows.Matrix) blas64.General {
	d := blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: m.Double}
	if m.Single != nil {
		d = dense.New(m.Rows, m.Cols)
		for i, v := range m.Single {
			d.Data[i] = float64(v)
		}
	}
	return d
}

// Whitening maps rows to a space where Mahalanobis distances are Euclidean: (x − mean)·P, with
// PPᵀ the inverse or pseudo-inverse of a covariance.
type Whitening struct {
	Mean []float64 `state:"mean[h]"`
	// Projection is P, h×r. It is float32 if products of rows with it are still exact to a
	// small fraction of the unit of distance.
	Projection rows.Matrix `state:"projection[h,r]"`
}

// NewWhitening inverts (1−s)Σ + s·γ̄·I, where s is the shrinkage, in [0,1], and γ̄ the mean of
// the diagonal of Σ (Ledoit & Wolf 2004). It leaves out directions in which rows do not vary;
// with shrinkage there are none.
func NewWhitening(mean []float64, covariance *mat.SymDense, shrinkage float64) (Whitening, error) {
	h := len(mean)
	average := mat.Trace(covariance) / float64(h)
	if !(average > 0) {
		return Whitening{}, ErrNoVariance
	}
	// Features are float32. Rounding alone gives them a variance of about 2⁻⁴⁸ of their
	// square, and no eigenvalue exceeds the trace.
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
	// mostAmplified bounds, for float32, the variances that are combined into a whitened
	// variance of 1. Their rounding error is then about 1e-5.
	maxAmplification = 1e4
	// leastSingle is the number of elements of P from which on float32 saves time.
	minSingle = 1 << 12
)

func newWhitening(mean []float64, p blas64.General, covariance *mat.SymDense) Whitening {
	var sum float64
	for i := range p.Rows {
		sum += covariance.At(i, i) * dense.SquaredNorm(dense.Row(p, i))
	}
	return Whitening{mean, newStored(p, len(p.Data) >= minSingle && sum <= maxAmplification*float64(p.Cols))}
}

// Distances writes to dst the squared Mahalanobis distance of each row of x, n×h, to the mean.
func (w Whitening) Distances(ctx context.Context, dst []float64, x blas32.General) error {
	origin := newStored(dense.New(1, w.Projection.Cols), w.Projection.Single != nil)
	return newClasses(w, origin).Nearest(ctx, dst, x)
}

// graph writes whitened rows as graph nodes.
func (w Whitening) graph(x graph.Tensor) graph.Tensor {
	return x.Double().Sub(w.Mean).MatMul(w.Projection)
}

// DistancesGraph writes the computation of Distances as graph nodes, for x, n×h.
func (w Whitening) DistancesGraph(x graph.Tensor) graph.Tensor {
	return w.graph(x).Double().SumSquares()
}
