package eigen

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
)

// blockReflections is the number of reflections that are applied together, by three matrix
// products.
const blockReflections = 64

// apply multiplies z, n×n, by Q from the left. This turns columns that are eigenvectors of T
// into eigenvectors of A.
//
// Reference: Schreiber & Van Loan (1989), A storage-efficient WY representation
// for products of Householder transformations.
func (r *reduction) apply(z []float64) {
	n := r.n
	if n < 2 {
		return
	}
	buffer := make([]float64, blockReflections*(2*n+blockReflections))
	allocate := func(rows, cols int) blas64.General {
		g := blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: buffer[:rows*cols]}
		buffer = buffer[rows*cols:]
		return g
	}
	for j := (n - 2) / blockReflections * blockReflections; j >= 0; j -= blockReflections {
		fullBuffer := buffer
		count, width := min(blockReflections, n-1-j), n-1-j
		v := blas64.General{Rows: count, Cols: width, Stride: n, Data: r.v[j*n+j+1:]}
		t, vt, vz := allocate(count, count), allocate(width, count), allocate(count, n)
		clear(t.Data) // elements below the diagonal
		gonum.Implementation{}.Dlarft(lapack.Forward, lapack.RowWise, width, count, v.Data, n, r.tau[j:], t.Data, count)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, v, t, 0, vt)
		below := blas64.General{Rows: width, Cols: n, Stride: n, Data: z[(j+1)*n:]}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, v, below, 0, vz)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, vt, vz, 1, below)
		buffer = fullBuffer
	}
}
