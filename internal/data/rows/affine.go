package rows

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// Affine sets dst to xW + b, where x is n×in, W is in×out and dst is n×out. b may be nil.
func Affine(dst, x, w blas32.General, b []float32) {
	if x.Cols != w.Rows || dst.Cols != w.Cols || dst.Rows != x.Rows {
		panic(fmt.Sprintf("rows: weights %d×%d from %d×%d to %d×%d", w.Rows, w.Cols, x.Rows, x.Cols, dst.Rows, dst.Cols))
	}
	if x.Rows == 0 {
		return
	}
	for i := range dst.Rows {
		if row := Row(dst, i); b == nil {
			clear(row)
		} else {
			copy(row, b)
		}
	}
	if w.Cols == 1 {
		column := func(m blas32.General) blas32.Vector { return blas32.Vector{N: m.Rows, Inc: m.Stride, Data: m.Data} }
		blas32.Gemv(blas.NoTrans, 1, x, column(w), 1, column(dst))
		return
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, x, w, 1, dst)
}

// Linear returns xWᵀ + b, the n×out result of a linear layer. x is n×in, and the weights W
// are out×in.
func Linear(x, w blas32.General, b []float32) blas32.General {
	z := New(x.Rows, w.Rows)
	for i := range z.Rows {
		copy(Row(z, i), b)
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, x, w, 1, z)
	return z
}

// ReLU replaces negative elements of v by 0.
func ReLU(v []float32) {
	// The bit operations compute max(x, 0), also for NaN, in fewer instructions than the
	// built-in max.
	const negativeInf = 0xff800000
	for i, x := range v {
		b := math.Float32bits(x)
		if b <= negativeInf {
			b &^= uint32(int32(b) >> 31)
		}
		v[i] = math.Float32frombits(b)
	}
}
