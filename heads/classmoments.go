package heads

import (
	"fmt"
	"maps"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// ClassMoments are the mean of every class's rows and the covariance of rows
// about the means of their classes, gathered in one pass and in bounded memory:
// one matrix for all classes and a row for each. The zero value is empty and
// takes rows of any width; the first Add fixes the width.
//
// As in Moments, products are formed in float64 of rows less a reference, here
// one for each class: the mean of the class's rows in the first block that has
// any.
type ClassMoments struct {
	width   int
	classes map[int]*classSum
	outer   *mat.SymDense  // Σ (row − ref)(row − ref)ᵀ over all classes
	block   blas64.General // centred rows
}

type classSum struct {
	n        int
	ref, sum []float64 // sum is Σ (row − ref)
}

// mean is less shift, or the mean itself where shift is nil.
func (c *classSum) mean(shift []float64) []float64 {
	m := make([]float64, len(c.ref))
	for j, s := range c.sum {
		m[j] = c.ref[j] + s/float64(c.n)
		if shift != nil {
			m[j] -= shift[j]
		}
	}
	return m
}

// Add counts the rows of phi, each of width h, and row i for class classes[i].
// Classes may be any numbers, and rows of a negative one are left out. It
// returns a *NotFiniteError, and counts nothing, if an element is NaN or Inf,
// and panics if the width is not that of earlier rows or a row lacks a class.
func (m *ClassMoments) Add(phi blas32.General, classes []int) error {
	if len(classes) != phi.Rows {
		panic(fmt.Sprintf("heads: %d rows but the classes of %d", phi.Rows, len(classes)))
	}
	if err := CheckFinite("features", phi); err != nil {
		return err
	}
	if phi.Rows == 0 {
		return nil
	}
	if m.outer == nil {
		m.width, m.classes, m.outer = phi.Cols, map[int]*classSum{}, mat.NewSymDense(phi.Cols, nil)
	}
	if phi.Cols != m.width {
		panic("heads: rows of different widths in one ClassMoments")
	}
	if rows := min(momentsBlock, phi.Rows); len(m.block.Data) < rows*m.width {
		m.block = blas64.General{Cols: m.width, Stride: m.width, Data: make([]float64, rows*m.width)}
	}
	for lo := 0; lo < phi.Rows; lo += momentsBlock {
		hi := min(lo+momentsBlock, phi.Rows)
		m.addBlock(rowsOf(phi, lo, hi), classes[lo:hi])
	}
	return nil
}

func (m *ClassMoments) addBlock(phi blas32.General, classes []int) {
	m.refer(phi, classes)
	m.block.Rows = 0
	for i, y := range classes {
		if y < 0 {
			continue
		}
		c := m.classes[y]
		out := m.block.Data[m.block.Rows*m.width : (m.block.Rows+1)*m.width]
		for j, v := range phi.Data[i*phi.Stride : i*phi.Stride+m.width] {
			out[j] = float64(v) - c.ref[j]
			c.sum[j] += out[j]
		}
		c.n++
		m.block.Rows++
	}
	if m.block.Rows > 0 {
		blas64.Syrk(blas.Trans, 1, m.block, 1, m.outer.RawSymmetric())
	}
}

// refer gives the classes that are new a reference.
func (m *ClassMoments) refer(phi blas32.General, classes []int) {
	rows := map[int]int{}
	for i, y := range classes {
		if c := m.classes[y]; y < 0 || c != nil && rows[y] == 0 {
			continue
		}
		if m.classes[y] == nil {
			m.classes[y] = &classSum{ref: make([]float64, m.width), sum: make([]float64, m.width)}
		}
		rows[y]++
		for j, v := range phi.Data[i*phi.Stride : i*phi.Stride+m.width] {
			m.classes[y].ref[j] += float64(v)
		}
	}
	for y, n := range rows {
		for j := range m.width {
			m.classes[y].ref[j] /= float64(n)
		}
	}
}

// Merge counts in m what o has counted; o stays as it is. It panics if widths
// differ.
func (m *ClassMoments) Merge(o *ClassMoments) {
	if o.outer == nil {
		return
	}
	if m.outer == nil {
		m.width, m.classes, m.outer = o.width, map[int]*classSum{}, mat.NewSymDense(o.width, nil)
	}
	if m.width != o.width {
		panic("heads: merge of moments of different widths")
	}
	m.outer.AddSym(m.outer, o.outer)
	for _, y := range o.Classes() {
		from, to := o.classes[y], m.classes[y]
		if to == nil {
			m.classes[y] = &classSum{from.n, slices.Clone(from.ref), slices.Clone(from.sum)}
			continue
		}
		shift := mat.NewVecDense(m.width, nil)
		for j := range m.width {
			shift.SetVec(j, from.ref[j]-to.ref[j])
		}
		m.outer.RankTwo(m.outer, 1, shift, mat.NewVecDense(m.width, from.sum))
		m.outer.SymRankOne(m.outer, float64(from.n), shift)
		for j := range m.width {
			to.sum[j] += from.sum[j] + float64(from.n)*shift.AtVec(j)
		}
		to.n += from.n
	}
}

// Classes are those that have rows, rising.
func (m *ClassMoments) Classes() []int { return slices.Sorted(maps.Keys(m.classes)) }

// N is the number of rows counted.
func (m *ClassMoments) N() int {
	n := 0
	for _, c := range m.classes {
		n += c.n
	}
	return n
}

// Means are the mean rows of the classes, c×h, in the order of Classes.
func (m *ClassMoments) Means() blas64.General {
	means := blas64.General{Cols: m.width, Stride: max(m.width, 1)}
	for _, y := range m.Classes() {
		means.Data = append(means.Data, m.classes[y].mean(nil)...)
		means.Rows++
	}
	return means
}

// Mean is the mean of all rows, of length h. It panics if no row was counted.
func (m *ClassMoments) Mean() []float64 {
	n := m.mustHaveRows()
	mean := make([]float64, m.width)
	for _, y := range m.Classes() {
		c := m.classes[y]
		for j := range mean {
			mean[j] += (float64(c.n)*c.ref[j] + c.sum[j]) / n
		}
	}
	return mean
}

// Within is the h×h covariance of rows about the means of their classes, with
// denominator n. It panics if no row was counted.
func (m *ClassMoments) Within() *mat.SymDense {
	n := m.mustHaveRows()
	w := mat.NewSymDense(m.width, nil)
	w.ScaleSym(1/n, m.outer)
	for _, y := range m.Classes() {
		c := m.classes[y]
		w.SymRankOne(w, -1/(n*float64(c.n)), mat.NewVecDense(m.width, c.sum))
	}
	return w
}

// Covariance is the h×h covariance of all rows about their mean, with
// denominator n. It panics if no row was counted.
func (m *ClassMoments) Covariance() *mat.SymDense {
	n := m.mustHaveRows()
	cov, mean := m.Within(), m.Mean()
	for _, y := range m.Classes() {
		c := m.classes[y]
		cov.SymRankOne(cov, float64(c.n)/n, mat.NewVecDense(m.width, c.mean(mean)))
	}
	return cov
}

func (m *ClassMoments) mustHaveRows() float64 {
	n := m.N()
	if n == 0 {
		panic("heads: moments of no rows")
	}
	return float64(n)
}
