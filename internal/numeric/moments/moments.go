// Package moments accumulates means and covariances of features, for all rows or by class.
package moments

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
)

// blockRows is the number of rows that are centred and multiplied at once.
const blockRows = 1024

// panelColumns is the number of features in one factor of a matrix product. The covariance is
// symmetric, so each pair of different panels is multiplied only once.
const panelColumns = 128

// Moments accumulates the first and second moments of rows of h features, also about the means
// of classes, in bounded memory. The zero value is empty and has one class. It accepts rows of
// any width, and the first Add fixes the width. Means and covariances of no rows are NaN.
//
// Each row is converted to float64, and a reference is subtracted before rows are
// multiplied. With Of, the reference of a class is the mean of its rows. With Add, the
// reference is the mean of the first rows that are added. The reference must be within a
// few standard deviations of the mean of the class. Entries of the covariance then have an
// error of about 1e-13 times the product of the two standard deviations, however large the
// mean is. This precision matters, because the smallest eigenvalues of trained features can
// be 1e-7 of the largest. Float32 sums could not resolve them.
//
// Moments of other rows with the same references can be subtracted (see Without).
type Moments struct {
	// UnitNorm scales rows to Euclidean norm 1 before they are counted. Rows of zeros stay
	// zero. UnitNorm must not change after the first Add.
	UnitNorm bool

	ref   blas64.General // reference of each class, c×h, subtracted from rows before they are multiplied
	rows  []int          // number of rows of each class, c
	sum   blas64.General // Σ (row − ref) for each class, c×h
	outer *mat.SymDense  // Σ (row − ref)(row − ref)ᵀ over all rows, h×h
	block []float64      // centred rows, transposed
}

// Of returns the moments of the rows of x, n×h and finite. classOf[i] is the class of row i,
// which must be less than classes.
func Of(ctx context.Context, x blas32.General, classOf []int, classes int) (*Moments, error) {
	m := &Moments{}
	m.reset(ClassMeans(x, classOf, classes, false))
	err := m.add(ctx, x, classOf)
	m.block = nil
	return m, err
}

// Add counts the rows of phi as rows of one class. If an element is NaN or Inf, Add returns a
// *rows.NotFiniteError and counts no rows. It panics if the width of phi differs from the
// width of earlier rows.
func (m *Moments) Add(ctx context.Context, phi blas32.General) error {
	if err := rows.CheckFinite("features", phi); err != nil {
		return err
	}
	if phi.Rows == 0 {
		return nil
	}
	if m.outer == nil {
		m.reset(ClassMeans(rows.Slice(phi, 0, min(phi.Rows, blockRows)), make([]int, min(phi.Rows, blockRows)), 1, m.UnitNorm))
	}
	if phi.Cols != m.Width() {
		panic("moments: rows of different widths in one Moments")
	}
	return m.add(ctx, phi, make([]int, phi.Rows))
}

func (m *Moments) reset(ref blas64.General) {
	m.ref, m.rows, m.sum, m.outer = ref, make([]int, ref.Rows), dense.New(ref.Rows, ref.Cols), mat.NewSymDense(ref.Cols, nil)
}

// Mean returns the mean of the rows of phi, or zeros if there are no rows. If unitNorm is
// true, each row is first scaled to norm 1.
func Mean(phi blas32.General, unitNorm bool) []float64 {
	return dense.Row(ClassMeans(phi, make([]int, phi.Rows), 1, unitNorm), 0)
}

// ClassMeans returns the mean of the rows of each class, c×h. The mean of a class without rows
// is 0. If unitNorm is true, each row is first scaled to norm 1. classOf[i] is the class of
// row i of phi, or negative if the row has no class.
func ClassMeans(phi blas32.General, classOf []int, classes int, unitNorm bool) blas64.General {
	all, counts := dense.New(classes, phi.Cols), make([]float64, classes)
	for i, y := range classOf {
		if y < 0 {
			continue
		}
		row, mean := rows.Row(phi, i), dense.Row(all, y)
		counts[y]++
		scale := rowScale(row, unitNorm)
		for j, v := range row {
			mean[j] += scale * float64(v)
		}
	}
	for y, n := range counts {
		for j := range phi.Cols {
			all.Data[y*all.Stride+j] /= max(n, 1)
		}
	}
	return all
}

// rowScale returns the factor by which a row is multiplied before it is counted.
func rowScale(row []float32, unitNorm bool) float64 {
	if !unitNorm {
		return 1
	}
	return rows.InverseNorm(row)
}

func (m *Moments) add(ctx context.Context, phi blas32.General, classOf []int) error {
	if need := min(blockRows, phi.Rows) * phi.Cols; len(m.block) < need {
		m.block = make([]float64, need)
	}
	for lo := 0; lo < phi.Rows; lo += blockRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+blockRows, phi.Rows)
		m.addBlock(rows.Slice(phi, lo, hi), classOf[lo:hi])
	}
	return nil
}

func (m *Moments) addBlock(phi blas32.General, classOf []int) {
	h, n := phi.Cols, phi.Rows
	scales := make([]float64, n)
	for i := range n {
		scales[i] = rowScale(rows.Row(phi, i), m.UnitNorm)
		m.rows[classOf[i]]++
	}
	panel := func(from int) blas64.General {
		to := min(from+panelColumns, h)
		return blas64.General{Rows: to - from, Cols: n, Stride: n, Data: m.block[from*n : to*n]}
	}
	var wg sync.WaitGroup
	for from := 0; from < h; from += panelColumns {
		work := func() { m.centre(panel(from), phi, from, scales, classOf) }
		if n < panelColumns { // too few rows for a goroutine
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	outer := m.outer.RawSymmetric()
	for from := 0; from < h; from += panelColumns {
		left := panel(from)
		blas64.Syrk(blas.NoTrans, 1, left, 1, blas64.Symmetric{N: left.Rows, Stride: h, Data: outer.Data[from*h+from:], Uplo: blas.Upper})
		for rightFrom := from + panelColumns; rightFrom < h; rightFrom += panelColumns {
			right := panel(rightFrom)
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, left, right, 1,
				blas64.General{Rows: left.Rows, Cols: right.Rows, Stride: h, Data: outer.Data[from*h+rightFrom:]})
		}
	}
}

// centre sets the rows of dst to centred columns of phi, from column first on. It also adds
// the columns to the sums of the classes.
func (m *Moments) centre(dst blas64.General, phi blas32.General, first int, scales []float64, classOf []int) {
	const group = 8 // number of float64 values in a cache line
	for i := 0; i < phi.Rows; i += group {
		scales, classOf := scales[i:min(i+group, phi.Rows)], classOf[i:]
		for j := range dst.Rows {
			out := dst.Data[j*dst.Stride+i : j*dst.Stride+i+len(scales)]
			index := i*phi.Stride + first + j
			for k, scale := range scales {
				y := classOf[k]*m.ref.Stride + first + j
				d := scale*float64(phi.Data[index]) - m.ref.Data[y]
				out[k] = d
				m.sum.Data[y] += d
				index += phi.Stride
			}
		}
	}
}

// Without returns the moments of the counted rows except the rows of x, which must be among
// them. classOf[i] is the class of row i of x.
func (m *Moments) Without(ctx context.Context, x blas32.General, classOf []int) (*Moments, error) {
	rest := &Moments{UnitNorm: m.UnitNorm}
	rest.reset(m.ref)
	if err := rest.add(ctx, x, classOf); err != nil {
		return nil, err
	}
	rest.block = nil
	for y := range rest.rows {
		rest.rows[y] = m.rows[y] - rest.rows[y]
	}
	for i, v := range rest.sum.Data {
		rest.sum.Data[i] = m.sum.Data[i] - v
	}
	upper, whole := rest.outer.RawSymmetric(), m.outer.RawSymmetric()
	for i, v := range upper.Data {
		upper.Data[i] = whole.Data[i] - v
	}
	return rest, nil
}

// N returns the number of counted rows.
func (m *Moments) N() int {
	n := 0
	for _, rows := range m.rows {
		n += rows
	}
	return n
}

// Width returns the number of features, or 0 before the first row.
func (m *Moments) Width() int { return m.ref.Cols }

// Means returns the means of the classes that have rows, in the order of the classes.
func (m *Moments) Means() blas64.General {
	means := dense.New(0, m.Width())
	for y, n := range m.rows {
		if n == 0 {
			continue
		}
		for j, s := range dense.Row(m.sum, y) {
			means.Data = append(means.Data, dense.Row(m.ref, y)[j]+s/float64(n))
		}
		means.Rows++
	}
	return means
}

// Mean returns the mean of all rows, of length h.
func (m *Moments) Mean() []float64 {
	mean, n := make([]float64, m.Width()), float64(m.N())
	for y, rows := range m.rows {
		ref, sum := dense.Row(m.ref, y), dense.Row(m.sum, y)
		for j := range mean {
			mean[j] += (float64(rows)*ref[j] + sum[j]) / n
		}
	}
	return mean
}

// Within returns the h×h covariance of rows about the means of their classes. The denominator
// is the number of rows.
func (m *Moments) Within() *mat.SymDense {
	n := float64(m.N())
	w := mat.NewSymDense(m.Width(), nil)
	w.ScaleSym(1/n, m.outer)
	shifts := dense.New(0, m.Width())
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

// Covariance returns the h×h covariance of all rows about their mean. The denominator is the
// number of rows.
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

// SecondMoment returns the h×h second moment ΦᵀΦ/n of the n rows Φ, which are not centred.
func (m *Moments) SecondMoment() *mat.SymDense {
	s, mean := m.Covariance(), m.Mean()
	s.SymRankOne(s, 1, mat.NewVecDense(len(mean), mean))
	return s
}
