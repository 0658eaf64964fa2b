// Package dense holds rows in float64, for sums and products that are long.
package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// New is a matrix of zeros.
func New(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float64, rows*cols)}
}

// Row is row i of m.
func Row(m blas64.General, i int) []float64 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// Vector is v for blas64.
func Vector(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// Single is v in float32.
func Single(v []float64) []float32 {
	s := make([]float32, len(v))
	for i, x := range v {
		s[i] = float32(x)
	}
	return s
}

// SquaredNorm is the squared Euclidean norm of v.
func SquaredNorm(v []float64) float64 { return blas64.Dot(Vector(v), Vector(v)) }

// Less is the rows of m less centre; a nil centre is 0.
func Less(m blas32.General, centre []float64) blas64.General {
	d := New(m.Rows, m.Cols)
	SetLess(d, m, centre)
	return d
}

// SetLess writes the rows of m less centre to those of dst.
func SetLess(dst blas64.General, m blas32.General, centre []float64) {
	for i := range m.Rows {
		to := Row(dst, i)
		for j, v := range m.Data[i*m.Stride : i*m.Stride+m.Cols] {
			to[j] = float64(v)
			if centre != nil {
				to[j] -= centre[j]
			}
		}
	}
}

// Project is the rows of x less centre, times p, h×k.
func Project(x blas32.General, centre []float64, p blas64.General) blas64.General {
	y := New(x.Rows, p.Cols)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, Less(x, centre), p, 0, y)
	return y
}
