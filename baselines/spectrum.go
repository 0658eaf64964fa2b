package baselines

import (
	"context"
	"fmt"
	"iter"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/ood"
)

// blocks are the rows of x, some at a time with the number of the first, until
// they or the context end.
func blocks(ctx context.Context, x blas32.General) iter.Seq2[int, blas32.General] {
	const atOnce = 1024
	return func(yield func(int, blas32.General) bool) {
		for first := 0; first < x.Rows && ctx.Err() == nil; first += atOnce {
			if !yield(first, ood.Batch{Features: x}.Slice(first, min(first+atOnce, x.Rows)).Features) {
				return
			}
		}
	}
}

type momentsKey struct{}

// moments are those of the training features.
func moments(ctx context.Context, t ood.Training) (*heads.Moments, error) {
	return ood.Cached(t.Batch, momentsKey{}, func() (*heads.Moments, error) {
		m := &heads.Moments{}
		for _, x := range blocks(ctx, t.Features) {
			if err := m.Add(x); err != nil {
				return nil, err
			}
		}
		return m, ctx.Err()
	})
}

// spectrum is the eigendecomposition of a positive semidefinite matrix.
type spectrum struct {
	values  []float64  // rising, none below 0
	vectors *mat.Dense // h×h, in columns; the largest entry of each is positive
}

func newSpectrum(a mat.Symmetric) (*spectrum, error) {
	values, vectors, err := eigen.Sym(a)
	if err != nil {
		return nil, fmt.Errorf("second moments of the features: %w", err)
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
	return &spectrum{values, vectors}, nil
}

// components are k eigenvectors, in columns, from the one of the first-smallest
// eigenvalue on.
func (s *spectrum) components(first, k int) blas64.General {
	c := newMatrix64(len(s.values), k)
	for i := range c.Rows {
		copy(row64(c, i), s.vectors.RawRowView(i)[first:])
	}
	return c
}

// widened is m less centre, which has an entry per column.
func widened(m blas32.General, centre []float64) blas64.General {
	w := newMatrix64(m.Rows, m.Cols)
	widen(w, m, centre)
	return w
}

func widen(dst blas64.General, m blas32.General, centre []float64) {
	for i := range m.Rows {
		to := row64(dst, i)
		for j, v := range row(m, i) {
			to[j] = float64(v) - centre[j]
		}
	}
}

// projected is x less centre, times p, h×k.
func projected(x blas32.General, centre []float64, p blas64.General) blas64.General {
	y := newMatrix64(x.Rows, p.Cols)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, widened(x, centre), p, 0, y)
	return y
}

// row64 is row i of m.
func row64(m blas64.General, i int) []float64 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}
