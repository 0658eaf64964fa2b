// Package gaussian models classes of rows as Gaussians with a common covariance. It computes
// the Mahalanobis distance of rows to the nearest class.
package gaussian

import (
	"context"
	"errors"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Classes holds Gaussians with different means and a common covariance.
type Classes struct {
	Whitening
	// Means holds the whitened means of c classes, with the same precision as Projection.
	Means rows.Matrix `state:"classes[c,r]"`

	norms       []float64  // squared norms of the means, c
	scratchPool *sync.Pool // pool of *scratch, which calls of Nearest reuse
}

// NewClasses returns classes with these means, c×h, and the covariance of w.
func NewClasses(w Whitening, means blas64.General) Classes {
	centred, whitened := dense.New(means.Rows, means.Cols), dense.New(means.Rows, w.Projection.Cols)
	for y := range means.Rows {
		copy(dense.Row(centred, y), dense.Row(means, y))
		blas64.Axpy(-1, dense.Vector(w.Mean), dense.Vector(dense.Row(centred, y)))
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, centred, toDouble(w.Projection), 0, whitened)
	return newClasses(w, newMatrix(whitened, w.Projection.Single != nil))
}

func newClasses(w Whitening, means rows.Matrix) Classes {
	c := Classes{Whitening: w, Means: means}
	c.prepare()
	return c
}

// prepare sets the fields that are computed from the means.
func (c *Classes) prepare() {
	c.scratchPool = new(sync.Pool)
	means := toDouble(c.Means)
	c.norms = make([]float64, means.Rows)
	for y := range c.norms {
		c.norms[y] = dense.SquaredNorm(dense.Row(means, y))
	}
}

// Restored implements rows.Restored.
func (c *Classes) Restored() error {
	if (c.Means.Single == nil) != (c.Projection.Single == nil) {
		return errors.New("means and projection are of different precision")
	}
	c.prepare()
	return nil
}

// Nearest sets dst to the squared Mahalanobis distance of each row of x, n×h, to the nearest
// class.
func (c Classes) Nearest(ctx context.Context, dst []float64, x blas32.General) error {
	p, m := c.Projection, c.Means
	if p.Single != nil {
		return distances(ctx, dst, x, c, matrix[float32]{p.Rows, p.Cols, p.Single}, matrix[float32]{m.Rows, m.Cols, m.Single}, multiply32)
	}
	return distances(ctx, dst, x, c, matrix[float64]{p.Rows, p.Cols, p.Double}, matrix[float64]{m.Rows, m.Cols, m.Double}, multiply64)
}

// NearestGraph writes the computation of Nearest as graph nodes. x is n×h.
func (c Classes) NearestGraph(x graph.Tensor) graph.Tensor {
	whitened := c.graph(x)
	means := whitened.Constant(c.Means)
	nearest := means // the mean to subtract if there is only one class
	if c.Means.Rows > 1 {
		nearest = whitened.Affine(-2, means, c.norms).ArgMin().Rows(means)
	}
	return whitened.Double().Sub(nearest).SumSquares()
}

type real interface{ float32 | float64 }

// matrix is a row-major matrix without gaps between rows.
type matrix[T real] struct {
	rows, cols int
	data       []T
}

func (m matrix[T]) row(i int) []T { return m.data[i*m.cols : (i+1)*m.cols] }

// resize changes the shape to rows×cols. The elements are arbitrary afterwards.
func (m *matrix[T]) resize(rows, cols int) {
	n := rows * cols
	if cap(m.data) < n {
		m.data = make([]T, n)
	}
	*m = matrix[T]{rows, cols, m.data[:n]}
}

// scratch holds intermediate results for one block of rows.
type scratch[T real] struct{ centred, whitened, dots matrix[T] }

func multiply32(c, a, b matrix[float32], transposed blas.Transpose) {
	general := func(m matrix[float32]) blas32.General {
		return blas32.General{Rows: m.rows, Cols: m.cols, Stride: m.cols, Data: m.data}
	}
	blas32.Gemm(blas.NoTrans, transposed, 1, general(a), general(b), 0, general(c))
}

func multiply64(c, a, b matrix[float64], transposed blas.Transpose) {
	general := func(m matrix[float64]) blas64.General {
		return blas64.General{Rows: m.rows, Cols: m.cols, Stride: m.cols, Data: m.data}
	}
	blas64.Gemm(blas.NoTrans, transposed, 1, general(a), general(b), 0, general(c))
}

// blockRows is the number of rows in a block, which is multiplied at once.
const blockRows = 256

// distances sets dst to the squared distance of each row of x to the nearest class, with
// products in the precision T.
func distances[T real](
	ctx context.Context, dst []float64, x blas32.General, c Classes, p, means matrix[T],
	multiply func(c, a, b matrix[T], transposed blas.Transpose),
) error {
	size := min(blockRows, x.Rows)
	s, ok := c.scratchPool.Get().(*scratch[T])
	if !ok {
		s = new(scratch[T])
	}
	defer c.scratchPool.Put(s)
	for first := 0; first < x.Rows; first += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(size, x.Rows-first)
		s.centred.resize(n, p.rows)
		s.whitened.resize(n, p.cols)
		s.dots.resize(n, means.rows)
		for i := range n {
			centredRow := s.centred.row(i)
			for j, v := range x.Data[(first+i)*x.Stride : (first+i)*x.Stride+x.Cols] {
				centredRow[j] = T(float64(v) - c.Mean[j])
			}
		}
		multiply(s.whitened, s.centred, p, blas.NoTrans)
		multiply(s.dots, s.whitened, means, blas.Trans)
		for i := range n {
			// Products find the nearest class quickly. The distance to it is then computed
			// from differences, which have a smaller rounding error.
			nearest, smallest := 0, math.Inf(1)
			for y, dot := range s.dots.row(i) {
				if v := c.norms[y] - 2*float64(dot); v < smallest {
					nearest, smallest = y, v
				}
			}
			var sum float64
			mean := means.row(nearest)
			for k, v := range s.whitened.row(i) {
				d := float64(v) - float64(mean[k])
				sum += d * d
			}
			dst[first+i] = sum
		}
	}
	return nil
}
