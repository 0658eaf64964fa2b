package baselines

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/ood"
)

// Rows that are counted, or converted to float64, between two looks at the
// context.
const spectrumBlock = 1024

// moments counts the training rows of a method.
func moments(ctx context.Context, phi blas32.General, method string) (*heads.Moments, error) {
	if phi.Rows == 0 {
		return nil, &heads.TooFewRowsError{What: method, Need: 1}
	}
	var m heads.Moments
	for i := 0; i < phi.Rows; i += spectrumBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := m.Add(ood.Batch{Features: phi}.Slice(i, min(i+spectrumBlock, phi.Rows)).Features)
		if bad := (*heads.NotFiniteError)(nil); errors.As(err, &bad) {
			bad.Row += i
		}
		if err != nil {
			return nil, err
		}
	}
	return &m, nil
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

// widened returns rows i to j−1 of m less centre, in buf.
func widened(m blas32.General, i, j int, centre, buf []float64) blas64.General {
	w := blas64.General{Rows: j - i, Cols: m.Cols, Stride: m.Cols, Data: buf[:(j-i)*m.Cols]}
	for r := range w.Rows {
		to := w.Data[r*w.Stride : (r+1)*w.Stride]
		for c, v := range row(m, i+r) {
			to[c] = float64(v) - centre[c]
		}
	}
	return w
}

// project calls each with the index of every row of x and its product with p,
// h×k, after centre is subtracted.
func project(ctx context.Context, x blas32.General, centre []float64, p blas64.General, each func(i int, y []float64)) error {
	block := min(spectrumBlock, x.Rows)
	buf := make([]float64, block*x.Cols)
	out := make([]float64, block*p.Cols)
	for i := 0; i < x.Rows; i += block {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := widened(x, i, min(i+block, x.Rows), centre, buf)
		y := blas64.General{Rows: w.Rows, Cols: p.Cols, Stride: p.Cols, Data: out[:w.Rows*p.Cols]}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, w, p, 0, y)
		for r := range y.Rows {
			each(i+r, y.Data[r*y.Stride:(r+1)*y.Stride])
		}
	}
	return nil
}
