package eigen

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// Spectrum is the eigendecomposition of a positive semidefinite matrix.
type Spectrum struct {
	Values  []float64  // rising, none below 0
	Vectors *mat.Dense // h×h, in columns; the largest entry of each is positive
}

// NewSpectrum decomposes a.
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

// Components are k eigenvectors, in columns, from the one of the first-smallest
// eigenvalue on.
func (s *Spectrum) Components(first, k int) blas64.General {
	c := blas64.General{Rows: len(s.Values), Cols: k, Stride: max(k, 1), Data: make([]float64, len(s.Values)*k)}
	for i := range c.Rows {
		copy(c.Data[i*c.Stride:][:k], s.Vectors.RawRowView(i)[first:])
	}
	return c
}

// Squares are the float64 matrices of h×h that are held where an eigenproblem of
// h features is solved: moments, what they are reduced to, three of eigenvectors
// on their way, and what is made of them.
const Squares = 7
