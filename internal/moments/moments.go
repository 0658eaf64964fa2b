// Package moments gathers means and covariances of features.
package moments

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// momentsBlock is the number of rows that are centred and multiplied at once.
const momentsBlock = 1024

// momentsPanel is the number of features in one factor of a product. Products
// of two different panels are needed one way round only.
const momentsPanel = 128

// Moments are the first and second moments of rows of features, gathered in
// one pass and in bounded memory. The zero value is empty and takes rows of
// any width; the first Add fixes the width.
//
// Rows are converted to float64, a reference mean, that of the first rows, is
// subtracted, and blas64 forms the products: the smallest eigenvalues of
// trained features can be 1e-7 of the largest, below what float32 sums
// resolve. Entries of the covariance are accurate to about 1e-13 times the
// product of the two standard deviations, however large the mean, as long as
// the reference is a few standard deviations from it.
type Moments struct {
	// UnitNorm scales rows to Euclidean norm 1 before they are counted. Rows
	// of zeros stay zero. It must not change after the first Add.
	UnitNorm bool

	n     int
	ref   []float64     // subtracted from rows before products
	sum   []float64     // Σ (row − ref)
	outer *mat.SymDense // Σ (row − ref)(row − ref)ᵀ
	block []float64     // centred rows, transposed
}

// Add counts the rows of phi, each of width h. It returns a *rows.NotFiniteError,
// and counts nothing, if an element is NaN or Inf, and panics if the width is
// not that of earlier rows.
func (m *Moments) Add(phi blas32.General) error {
	if err := rows.CheckFinite("features", phi); err != nil {
		return err
	}
	if phi.Rows == 0 {
		return nil
	}
	if m.sum == nil {
		m.start(phi)
	}
	if phi.Cols != len(m.sum) {
		panic("moments: rows of different widths in one Moments")
	}
	if need := min(momentsBlock, phi.Rows) * phi.Cols; len(m.block) < need {
		m.block = make([]float64, need)
	}
	for lo := 0; lo < phi.Rows; lo += momentsBlock {
		m.addBlock(rows.Slice(phi, lo, min(lo+momentsBlock, phi.Rows)))
	}
	return nil
}

func (m *Moments) start(phi blas32.General) {
	h := phi.Cols
	m.ref = Mean(rows.Slice(phi, 0, min(phi.Rows, momentsBlock)), m.UnitNorm)
	m.sum = make([]float64, h)
	m.outer = mat.NewSymDense(h, nil)
}

// Mean is the mean of the rows of phi, of which there is at least one, each
// scaled to norm 1 first with unitNorm.
func Mean(phi blas32.General, unitNorm bool) []float64 {
	mean := make([]float64, phi.Cols)
	for i := range phi.Rows {
		row := phi.Data[i*phi.Stride : i*phi.Stride+phi.Cols]
		scale := rowScale(row, unitNorm)
		for j, v := range row {
			mean[j] += scale * float64(v)
		}
	}
	for j := range mean {
		mean[j] /= float64(phi.Rows)
	}
	return mean
}

// rowScale is what a row is multiplied by.
func rowScale(row []float32, unitNorm bool) float64 {
	if !unitNorm {
		return 1
	}
	return rows.InverseNorm(row)
}

func (m *Moments) addBlock(phi blas32.General) {
	h, rows := phi.Cols, phi.Rows
	scales := make([]float64, rows)
	for i := range rows {
		scales[i] = rowScale(phi.Data[i*phi.Stride:i*phi.Stride+h], m.UnitNorm)
	}
	panel := func(from int) blas64.General {
		to := min(from+momentsPanel, h)
		return blas64.General{Rows: to - from, Cols: rows, Stride: rows, Data: m.block[from*rows : to*rows]}
	}
	var wg sync.WaitGroup
	for from := 0; from < h; from += momentsPanel {
		work := func() { m.centre(panel(from), phi, from, scales) }
		if rows < momentsPanel { // not worth the start
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	outer := m.outer.RawSymmetric()
	for from := 0; from < h; from += momentsPanel {
		left := panel(from)
		blas64.Syrk(blas.NoTrans, 1, left, 1, blas64.Symmetric{N: left.Rows, Stride: h, Data: outer.Data[from*h+from:], Uplo: blas.Upper})
		for other := from + momentsPanel; other < h; other += momentsPanel {
			right := panel(other)
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, left, right, 1,
				blas64.General{Rows: left.Rows, Cols: right.Rows, Stride: h, Data: outer.Data[from*h+other:]})
		}
	}
	m.n += rows
}

// centre sets the rows of to, which are columns of phi from the first on, and
// adds up each.
func (m *Moments) centre(to blas64.General, phi blas32.General, first int, scales []float64) {
	const group = 8 // values that fill a line of the cache
	for i := 0; i < phi.Rows; i += group {
		scales := scales[i:min(i+group, phi.Rows)]
		for j := range to.Rows {
			out := to.Data[j*to.Stride+i : j*to.Stride+i+len(scales)]
			ref, at := m.ref[first+j], i*phi.Stride+first+j
			var sum float64
			for k, scale := range scales {
				d := scale*float64(phi.Data[at]) - ref
				out[k] = d
				sum += d
				at += phi.Stride
			}
			m.sum[first+j] += sum
		}
	}
}

// N is the number of rows counted.
func (m *Moments) N() int { return m.n }

// Width is the number of features, 0 before the first row.
func (m *Moments) Width() int { return len(m.sum) }

// Mean is the mean row, of length h. It panics if no row was counted.
func (m *Moments) Mean() []float64 {
	m.mustHaveRows()
	mean := make([]float64, len(m.sum))
	for j, s := range m.sum {
		mean[j] = m.ref[j] + s/float64(m.n)
	}
	return mean
}

// Covariance is the h×h covariance with denominator n. It panics if no row
// was counted.
func (m *Moments) Covariance() *mat.SymDense {
	m.mustHaveRows()
	n := float64(m.n)
	c := mat.NewSymDense(len(m.sum), nil)
	c.ScaleSym(1/n, m.outer)
	c.SymRankOne(c, -1/(n*n), mat.NewVecDense(len(m.sum), m.sum))
	return c
}

// SecondMoment is the h×h uncentred second moment ΦᵀΦ/n. It panics if no row
// was counted.
func (m *Moments) SecondMoment() *mat.SymDense {
	s := m.Covariance()
	mean := m.Mean()
	s.SymRankOne(s, 1, mat.NewVecDense(len(mean), mean))
	return s
}

func (m *Moments) mustHaveRows() {
	if m.n == 0 {
		panic("moments: moments of no rows")
	}
}
