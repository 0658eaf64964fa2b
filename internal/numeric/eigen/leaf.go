package eigen

import (
	"math"

	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
)

// solveLeaf solves the small n×n tridiagonal matrix with diagonal d and off-diagonal e. It
// leaves the eigenvalues in d, and writes the eigenvectors to the first n elements of n rows
// of z. The rows are stride apart.
func solveLeaf(d, e, z []float64, stride int) error {
	n := len(d)
	columns := make([]float64, n*n)
	if !(gonum.Implementation{}).Dsteqr(lapack.EVTridiag, n, d, e, columns, n, make([]float64, 2*n)) {
		return ErrNoConvergence
	}
	for i := range n {
		for j := range n {
			z[i*stride+j] = columns[j*n+i]
		}
	}
	return nil
}

// largest returns the largest magnitude of an element of d or e.
func largest(d, e []float64) float64 {
	var norm float64
	for _, v := range d {
		norm = max(norm, math.Abs(v))
	}
	for _, v := range e {
		norm = max(norm, math.Abs(v))
	}
	return norm
}
