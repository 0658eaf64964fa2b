// Package dense provides helpers for float64 matrices. Long sums and products are computed in
// float64, because float32 would lose too many digits.
package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// New returns a matrix of zeros.
func New(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float64, rows*cols)}
}

// Row returns row i of m, without a copy.
func Row(m blas64.General, i int) []float64 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// Vector wraps v for blas64, without a copy.
func Vector(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// Single returns a copy of v converted to float32.
func Single(v []float64) []float32 {
	s := make([]float32, len(v))
	for i, x := range v {
		s[i] = float32(x)
	}
	return s
}

// SquaredNorm returns the squared Euclidean norm of v.
func SquaredNorm(v []float64) float64 { return blas64.Dot(Vector(v), Vector(v)) }

// Less returns the rows of m minus centre. If centre is nil, nothing is subtracted.
func Less(m blas32.General, centre []float64) blas64.General {
	d := New(m.Rows, m.Cols)
	SetLess(d, m, centre)
	return d
}

// SetLess sets each row of dst to the same row of m minus centre. If centre is nil, nothing is
// subtracted.
func SetLess(dst blas64.General, m blas32.General, centre []float64) {
	for i := range m.Rows {
		out := Row(dst, i)
		for j, v := range m.Data[i*m.Stride : i*m.Stride+m.Cols] {
			out[j] = float64(v)
			if centre != nil {
				out[j] -= centre[j]
			}
		}
	}
}

// Project returns (x − centre)·p, where the rows of x and centre have h entries and p is h×k.
func Project(x blas32.General, centre []float64, p blas64.General) blas64.General {
	y := New(x.Rows, p.Cols)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, Less(x, centre), p, 0, y)
	return y
}
