package gaussian

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/rows"
)

// ErrNoVariance says that rows do not vary.
var ErrNoVariance = errors.New("the training features do not vary: there is no covariance to measure distances by")

func newStored(m blas64.General, single bool) rows.Matrix {
	if !single {
		return rows.Matrix{Rows: m.Rows, Cols: m.Cols, Double: m.Data}
	}
	s := make([]float32, len(m.Data))
	for i, v := range m.Data {
		s[i] = float32(v)
	}
	return rows.Matrix{Rows: m.Rows, Cols: m.Cols, Single: s}
}

func double(m rows.Matrix) blas64.General {
	d := blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: m.Double}
	if m.Single != nil {
		d = newMatrix(m.Rows, m.Cols)
		for i, v := range m.Single {
			d.Data[i] = float64(v)
		}
	}
	return d
}

// Whitening takes rows to where Mahalanobis distances are Euclidean ones:
// (x − mean)·P, with PPᵀ the inverse of a covariance, or its pseudo-inverse.
type Whitening struct {
	Mean []float64 `state:"mean[h]"`
	// Projection is P, h×r: in float32 where products of rows with it are then
	// still exact to a small part of the unit of distance.
	Projection rows.Matrix `state:"projection[h,r]"`
}

// NewWhitening inverts (1−s)Σ + s·γ̄·I, where s is the shrinkage, in [0,1], and γ̄
// the mean of the diagonal of Σ (Ledoit & Wolf 2004). Directions in which rows
// do not vary are left out, of which there are none with shrinkage.
func NewWhitening(mean []float64, covariance *mat.SymDense, shrinkage float64) (Whitening, error) {
	h := len(mean)
	average := mat.Trace(covariance) / float64(h)
	if !(average > 0) {
		return Whitening{}, ErrNoVariance
	}
	// Features are float32: rounding alone gives them a variance of about 2⁻⁴⁸
	// of their square, and no eigenvalue is above the trace.
	if noise := float64(h) * 0x1p-48 * float64(h) * average; shrinkage*average > noise {
		if p, ok := inverseRoot(covariance, shrinkage, average); ok {
			return newWhitening(mean, p, covariance), nil
		}
	}
	values, vectors, err := eigen.Sym(covariance)
	if err != nil {
		return Whitening{}, fmt.Errorf("second moments of the features: %w", err)
	}
	least := float64(h) * 0x1p-48 * values[h-1]
	first := h
	for first > 0 && (1-shrinkage)*max(values[first-1], 0)+shrinkage*average > least {
		first--
	}
	p := newMatrix(h, h-first)
	for i := range h {
		for k := range p.Cols {
			p.Data[i*p.Stride+k] = vectors.At(i, first+k) / math.Sqrt((1-shrinkage)*max(values[first+k], 0)+shrinkage*average)
		}
	}
	return newWhitening(mean, p, covariance), nil
}

const (
	// mostAmplified is how large the variances that a whitened one of 1 is made
	// of may be for float32: their rounding is then some 1e-5.
	mostAmplified = 1e4
	// leastSingle is the number of elements of P from which on float32 gains
	// time.
	leastSingle = 1 << 16
)

func newWhitening(mean []float64, p blas64.General, covariance *mat.SymDense) Whitening {
	var sum float64
	for i := range p.Rows {
		along := row(p, i)
		sum += covariance.At(i, i) * blas64.Dot(vector(along), vector(along))
	}
	return Whitening{mean, newStored(p, len(p.Data) >= leastSingle && sum <= mostAmplified*float64(p.Cols))}
}

// inverseRoot is U⁻¹, where UᵀU is the shrunk covariance.
func inverseRoot(covariance *mat.SymDense, shrinkage, average float64) (blas64.General, bool) {
	h := covariance.SymmetricDim()
	shrunk := mat.NewSymDense(h, nil)
	shrunk.ScaleSym(1-shrinkage, covariance)
	for i := range h {
		shrunk.SetSym(i, i, shrunk.At(i, i)+shrinkage*average)
	}
	var c mat.Cholesky
	if !c.Factorize(shrunk) {
		return blas64.General{}, false
	}
	var u mat.TriDense
	c.UTo(&u)
	p := newMatrix(h, h)
	for i := range h {
		copy(row(p, i)[i:], u.RawTriangular().Data[i*u.RawTriangular().Stride+i:][:h-i])
	}
	invert(p)
	return p, true
}

// invert replaces an upper triangular matrix by its inverse,
//
//	⎛A B⎞⁻¹   ⎛A⁻¹ −A⁻¹BC⁻¹⎞
//	⎝  C⎠   = ⎝        C⁻¹ ⎠
//
// by halves, so that most of the work is large products.
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
	ab := newMatrix(k, n-k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, ab)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, ab, c, 0, b)
}

// view is rows i0 to i1−1 and columns j0 to j1−1 of m.
func view(m blas64.General, i0, i1, j0, j1 int) blas64.General {
	return blas64.General{Rows: i1 - i0, Cols: j1 - j0, Stride: m.Stride, Data: m.Data[i0*m.Stride+j0 : (i1-1)*m.Stride+j1]}
}

// Distances writes to dst the squared Mahalanobis distance of each row of x,
// n×h, to the mean.
func (w Whitening) Distances(ctx context.Context, dst []float64, x blas32.General) error {
	origin := newStored(newMatrix(1, w.Projection.Cols), w.Projection.Single != nil)
	return newClasses(w, origin).Nearest(ctx, dst, x)
}
