// Package eigen solves large symmetric eigenproblems.
package eigen

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// ErrNoConvergence reports that no eigenvalues were found. This happens if the matrix contains
// NaN or Inf.
var ErrNoConvergence = errors.New("eigenvalues of a symmetric matrix did not converge")

// Sym returns the eigenvalues of a in increasing order, and the unit eigenvectors as columns
// of an n×n matrix in the same order.
//
// The result agrees with mat.EigenSym. The method is Householder's reduction to tridiagonal
// form, followed by Cuppen's divide and conquer. Both spend most of their time in large matrix
// products. The result does not depend on the number of processors.
//
// Reference: Golub & Van Loan (2013), Matrix Computations, 4th edition,
// sections 8.3.1 and 8.4.4; Gu & Eisenstat (1995), A divide-and-conquer
// algorithm for the symmetric tridiagonal eigenproblem.
func Sym(a mat.Symmetric) (values []float64, vectors *mat.Dense, err error) {
	n := a.SymmetricDim()
	if n == 0 {
		return nil, &mat.Dense{}, nil
	}
	data, exponent, err := scaled(a)
	if err != nil {
		return nil, nil, err
	}
	r := tridiagonalize(data, n)
	s, err := divideAndConquer(r.d, r.e)
	if err != nil {
		return nil, nil, err
	}
	transpose(s.scratch, s.vectors, s.order)
	r.apply(s.scratch)
	values = make([]float64, n)
	for k, from := range s.order {
		values[k] = math.Ldexp(s.values[from], exponent)
	}
	return values, mat.NewDense(n, n, s.scratch), nil
}

// scaled returns the upper triangle of a, row-major and divided by 2^exponent. The largest
// entry is then about 1, so squares do not overflow or underflow.
func scaled(a mat.Symmetric) (data []float64, exponent int, err error) {
	n := a.SymmetricDim()
	data = make([]float64, n*n)
	if r, ok := a.(mat.RawSymmetricer); ok {
		s := r.RawSymmetric()
		for i := range n {
			copy(data[i*n+i:(i+1)*n], s.Data[i*s.Stride+i:i*s.Stride+n])
		}
	} else {
		for i := range n {
			for j := i; j < n; j++ {
				data[i*n+j] = a.At(i, j)
			}
		}
	}
	var norm float64
	for i := range n {
		for _, v := range data[i*n+i : (i+1)*n] {
			norm = max(norm, math.Abs(v)) // max returns NaN if v is NaN
		}
	}
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil, 0, ErrNoConvergence
	}
	_, exponent = math.Frexp(norm)
	// The factor 2^−exponent could overflow, so it is applied in two steps.
	half := exponent / 2
	p, q := math.Ldexp(1, -half), math.Ldexp(1, half-exponent)
	for i := range n {
		row := data[i*n+i : (i+1)*n]
		for j, v := range row {
			row[j] = v * p * q
		}
	}
	return data, exponent, nil
}

// transpose sets column k of dst to row order[k] of src, n×n.
func transpose(dst, src []float64, order []int) {
	n := len(order)
	const side = 8 // number of float64 values in a cache line
	parallel((n+side-1)/side, 16, func(from, to int) {
		for i := from * side; i < min(to*side, n); i += side {
			for j := 0; j < n; j += side {
				for r := i; r < min(i+side, n); r++ {
					for c, v := range src[order[r]*n+j : order[r]*n+min(j+side, n)] {
						dst[(j+c)*n+r] = v
					}
				}
			}
		}
	})
}
