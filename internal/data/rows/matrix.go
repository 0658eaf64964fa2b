package rows

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// MaxExact is 2²⁴. Float32 can represent every integer from 0 to MaxExact, but not the next
// one.
const MaxExact = 1 << 24

// MaxWidth limits the number of columns, because a damaged file could declare any number.
const MaxWidth = 1 << 24

// New returns a matrix of zeros.
func New(n, cols int) blas32.General {
	return blas32.General{Rows: n, Cols: cols, Stride: max(cols, 1), Data: make([]float32, n*cols)}
}

// Row returns row i of m, without a copy.
func Row(m blas32.General, i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// Slice returns rows i to j−1 of m without copying. The result has no spare capacity, so
// appending to it cannot overwrite m. For a matrix without columns it returns an empty
// matrix. Slice panics if m lacks these rows.
func Slice(m blas32.General, i, j int) blas32.General {
	if m.Cols == 0 {
		return blas32.General{}
	}
	if i < 0 || j < i || j > m.Rows {
		panic(fmt.Sprintf("rows: rows %d to %d of %d", i, j, m.Rows))
	}
	s := blas32.General{Rows: j - i, Cols: m.Cols, Stride: m.Stride}
	if i < j {
		end := (j-1)*m.Stride + m.Cols
		s.Data = m.Data[i*m.Stride : end : end]
	}
	return s
}

// Select copies the picked rows of m, in the given order. For a matrix without columns it
// returns an empty matrix.
func Select(m blas32.General, picked []int) blas32.General {
	if m.Cols == 0 {
		return blas32.General{}
	}
	s := New(len(picked), m.Cols)
	for i, r := range picked {
		copy(Row(s, i), Row(m, r))
	}
	return s
}

// Pick returns the values at the picked indices, in the given order, or nil if all is nil.
func Pick[T any](all []T, picked []int) []T {
	if all == nil {
		return nil
	}
	some := make([]T, len(picked))
	for i, k := range picked {
		some[i] = all[k]
	}
	return some
}

// Unit returns the rows of m scaled to unit norm. Rows of zeros stay zero.
func Unit(m blas32.General) blas32.General { return Radial(m, 1) }

// Radial returns the rows of m, each divided by its norm raised to the given exponent. Rows
// of zeros stay zero.
func Radial(m blas32.General, exponent float64) blas32.General {
	scaled := New(m.Rows, m.Cols)
	for i := range m.Rows {
		to, scale := Row(scaled, i), math.Pow(InverseNorm(Row(m, i)), exponent)
		for j, v := range Row(m, i) {
			to[j] = float32(scale * float64(v))
		}
	}
	return scaled
}

// SquaredDistance returns the squared Euclidean distance of x and y.
func SquaredDistance(x, y []float32) float64 {
	var s float64
	for j, v := range x {
		d := float64(v) - float64(y[j])
		s += d * d
	}
	return s
}

// Argmax returns, for each row, the column of its largest number. If several are equal, it
// returns the first.
func Argmax(m blas32.General) []int {
	columns := make([]int, m.Rows)
	for i := range columns {
		z := Row(m, i)
		for k, v := range z {
			if v > z[columns[i]] {
				columns[i] = k
			}
		}
	}
	return columns
}
