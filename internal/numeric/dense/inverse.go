package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// InverseRoot returns U⁻¹ of the Cholesky factorisation UᵀU = a. It returns false if a is not
// positive definite.
func InverseRoot(a *mat.SymDense) (blas64.General, bool) {
	var c mat.Cholesky
	if !c.Factorize(a) {
		return blas64.General{}, false
	}
	u := c.RawU().(*mat.TriDense).RawTriangular()
	p := New(u.N, u.N)
	for i := range u.N {
		copy(Row(p, i)[i:], u.Data[i*u.Stride+i:i*u.Stride+u.N])
	}
	invert(p)
	return p, true
}

// invert replaces an upper triangular matrix by its inverse:
//
//	⎛A B⎞⁻¹   ⎛A⁻¹ −A⁻¹BC⁻¹⎞
//	⎝  C⎠   = ⎝        C⁻¹ ⎠
//
// The matrix is halved recursively, so most of the work is in large matrix products.
func invert(u blas64.General) {
	n := u.Rows
	if n <= 64 {
		for j := range n {
			u.Data[j*u.Stride+j] = 1 / u.Data[j*u.Stride+j]
			for i := range j {
				var s float64
				for k := i; k < j; k++ {
					s += u.Data[i*u.Stride+k] * u.Data[k*u.Stride+j]
				}
				u.Data[i*u.Stride+j] = -s * u.Data[j*u.Stride+j]
			}
		}
		return
	}
	k := n / 2
	a, b, c := view(u, 0, k, 0, k), view(u, 0, k, k, n), view(u, k, n, k, n)
	invert(a)
	invert(c)
	ab := New(k, n-k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, ab)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, ab, c, 0, b)
}

// view returns the rows [i0,i1) and columns [j0,j1) of m, without a copy.
func view(m blas64.General, i0, i1, j0, j1 int) blas64.General {
	return blas64.General{Rows: i1 - i0, Cols: j1 - j0, Stride: m.Stride, Data: m.Data[i0*m.Stride+j0 : (i1-1)*m.Stride+j1]}
}
