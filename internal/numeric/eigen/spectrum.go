package eigen

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// Spectrum is the eigendecomposition of a positive semidefinite matrix.
type Spectrum struct {
	Values  []float64  // increasing and not negative
	Vectors *mat.Dense // h×h, one eigenvector in each column; its entry of largest magnitude is positive
}

// NewSpectrum returns the eigendecomposition of a.
func NewSpectrum(a mat.Symmetric) (*Spectrum, error) {
	values, vectors, err := Sym(a)
	if err != nil {
		return nil, err
	}
	largest := make([]float64, len(values))
	for i := range values {
		for j, v := range vectors.RawRowView(i) {
			if math.Abs(v) > math.Abs(largest[j]) {
				largest[j] = v
			}
		}
	}
	for i := range values {
		values[i] = max(values[i], 0)
		r := vectors.RawRowView(i)
		for j, v := range largest {
			r[j] = math.Copysign(1, v) * r[j]
		}
	}
	return &Spectrum{values, vectors}, nil
}

// Components returns k eigenvectors as columns, in order of increasing eigenvalues. They
// begin with eigenvector number first, counted from 0.
func (s *Spectrum) Components(first, k int) blas64.General {
	c := blas64.General{Rows: len(s.Values), Cols: k, Stride: max(k, 1), Data: make([]float64, len(s.Values)*k)}
	for i := range c.Rows {
		copy(c.Data[i*c.Stride:][:k], s.Vectors.RawRowView(i)[first:])
	}
	return c
}

// Squares is the number of h×h float64 matrices in memory while an eigenproblem of h
// features is solved. Two are the accumulated moments and the matrix that is decomposed.
// Five more are the tridiagonal reduction, three matrices for the computation of
// eigenvectors, and a copy of the eigenvectors.
const Squares = 7
