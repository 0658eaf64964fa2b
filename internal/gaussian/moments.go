// Package gaussian describes classes of rows as Gaussians that share one
// covariance, and finds how far other rows are from them.
package gaussian

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/dense"
)

// rowsAtOnce is the number of rows that are centred and multiplied at once.
const rowsAtOnce = 1024

// Moments are the first and second moments of n rows of h features about the
// means of their c classes.
//
// Products are formed in float64 of rows less a reference for each class: the
// smallest eigenvalues of trained features can be 1e-7 of the largest, below
// what float32 sums resolve. Moments of other rows with the same references
// can be taken off again.
type Moments struct {
	ref   blas64.General // c×h, the classes' means among the rows first measured
	rows  []int          // c
	sum   blas64.General // c×h, Σ (row − ref)
	outer *mat.SymDense  // Σ (row − ref)(row − ref)ᵀ
}

// Measure returns the moments of the rows of x, n×h and finite, of which row i is
// of class of[i] < classes.
func Measure(ctx context.Context, x blas32.General, of []int, classes int) (*Moments, error) {
	ref, rows := dense.New(classes, x.Cols), make([]int, classes)
	for i, y := range of {
		rows[y]++
		mean := dense.Row(ref, y)
		for j, v := range x.Data[i*x.Stride : i*x.Stride+x.Cols] {
			mean[j] += float64(v)
		}
	}
	for y, n := range rows {
		if n > 0 {
			blas64.Scal(1/float64(n), dense.Vector(dense.Row(ref, y)))
		}
	}
	return measure(ctx, ref, x, of)
}

func measure(ctx context.Context, ref blas64.General, x blas32.General, of []int) (*Moments, error) {
	m := &Moments{ref: ref, rows: make([]int, ref.Rows), sum: dense.New(ref.Rows, x.Cols), outer: mat.NewSymDense(x.Cols, nil)}
	block := dense.New(min(rowsAtOnce, x.Rows), x.Cols)
	for first := 0; first < x.Rows; first += rowsAtOnce {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		block.Rows = min(rowsAtOnce, x.Rows-first)
		for i := range block.Rows {
			y := of[first+i]
			m.rows[y]++
			to, mean, sum := dense.Row(block, i), dense.Row(m.ref, y), dense.Row(m.sum, y)
			for j, v := range x.Data[(first+i)*x.Stride : (first+i)*x.Stride+x.Cols] {
				to[j] = float64(v) - mean[j]
				sum[j] += to[j]
			}
		}
		blas64.Syrk(blas.Trans, 1, block, 1, m.outer.RawSymmetric())
	}
	return m, nil
}

// Without returns the moments of the rows that m counts, less the rows of x,
// which are among them: of[i] is again the class of row i.
func (m *Moments) Without(ctx context.Context, x blas32.General, of []int) (*Moments, error) {
	less, err := measure(ctx, m.ref, x, of)
	if err != nil {
		return nil, err
	}
	for y := range less.rows {
		less.rows[y] = m.rows[y] - less.rows[y]
	}
	for i, v := range less.sum.Data {
		less.sum.Data[i] = m.sum.Data[i] - v
	}
	upper, whole := less.outer.RawSymmetric(), m.outer.RawSymmetric()
	for i, v := range upper.Data {
		upper.Data[i] = whole.Data[i] - v
	}
	return less, nil
}

// N is the number of rows.
func (m *Moments) N() int {
	n := 0
	for _, rows := range m.rows {
		n += rows
	}
	return n
}

// Means are the means of the classes that have rows, in rising order.
func (m *Moments) Means() blas64.General {
	means := dense.New(0, m.ref.Cols)
	for y, n := range m.rows {
		if n == 0 {
			continue
		}
		for j, s := range dense.Row(m.sum, y) {
			means.Data = append(means.Data, m.ref.Data[y*m.ref.Stride+j]+s/float64(n))
		}
		means.Rows++
	}
	return means
}

// Mean is the mean of all rows, of length h.
func (m *Moments) Mean() []float64 {
	mean, n := make([]float64, m.ref.Cols), float64(m.N())
	for y, rows := range m.rows {
		ref, sum := dense.Row(m.ref, y), dense.Row(m.sum, y)
		for j := range mean {
			mean[j] += (float64(rows)*ref[j] + sum[j]) / n
		}
	}
	return mean
}

// Within is the h×h covariance of rows about the means of their classes, with
// denominator n.
func (m *Moments) Within() *mat.SymDense {
	n := float64(m.N())
	w := mat.NewSymDense(m.ref.Cols, nil)
	w.ScaleSym(1/n, m.outer)
	// The references are the means themselves, but where rows were taken off.
	shifts := dense.New(0, m.ref.Cols)
	for y, rows := range m.rows {
		if rows > 0 {
			shifts.Data = append(shifts.Data, dense.Row(m.sum, y)...)
			shifts.Rows++
			blas64.Scal(1/math.Sqrt(float64(rows)), dense.Vector(dense.Row(shifts, shifts.Rows-1)))
		}
	}
	blas64.Syrk(blas.Trans, -1/n, shifts, 1, w.RawSymmetric())
	return w
}

// Covariance is the h×h covariance of all rows about their mean, with
// denominator n.
func (m *Moments) Covariance() *mat.SymDense {
	c, mean, means := m.Within(), m.Mean(), m.Means()
	k := 0
	for _, rows := range m.rows {
		if rows == 0 {
			continue
		}
		from := dense.Row(means, k)
		blas64.Axpy(-1, dense.Vector(mean), dense.Vector(from))
		blas64.Scal(math.Sqrt(float64(rows)/float64(m.N())), dense.Vector(from))
		k++
	}
	blas64.Syrk(blas.Trans, 1, means, 1, c.RawSymmetric())
	return c
}
