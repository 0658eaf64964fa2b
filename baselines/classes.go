package baselines

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// byClass is which class each training row is of. Classes without rows are
// left out and the others numbered from 0.
type byClass struct {
	of []int // n
	n  int
}

// classesOf takes the labels, or where there are none the largest logit.
func classesOf(t ood.Training) (byClass, error) {
	raw := t.Labels
	if len(raw) == 0 {
		if !t.HasLogits() {
			return byClass{}, ood.ErrNoClasses
		}
		if err := checkClasses(t.Logits.Cols); err != nil {
			return byClass{}, err
		}
		if err := heads.CheckFinite("logits", t.Logits); err != nil {
			return byClass{}, err
		}
		raw = make([]int, t.Logits.Rows)
		for i := range raw {
			raw[i] = newSoftmax(row(t.Logits, i), 1).top
		}
	}
	if len(raw) != t.Features.Rows {
		return byClass{}, fmt.Errorf("%d rows of features but the classes of %d", t.Features.Rows, len(raw))
	}
	present := slices.Compact(slices.Sorted(slices.Values(raw)))
	c := byClass{of: make([]int, len(raw)), n: len(present)}
	for i, y := range raw {
		c.of[i], _ = slices.BinarySearch(present, y)
	}
	return c, nil
}

// means are the mean rows of the classes, n×h.
func (c byClass) means(phi blas32.General) blas64.General {
	m := newMatrix64(c.n, phi.Cols)
	rows := make([]float64, c.n)
	for i, y := range c.of {
		rows[y]++
		to := m.Data[y*m.Stride:]
		for j, v := range row(phi, i) {
			to[j] += float64(v)
		}
	}
	for y, n := range rows {
		for j := range m.Cols {
			m.Data[y*m.Stride+j] /= n
		}
	}
	return m
}

// within is the covariance of rows about the means of their classes, all
// classes together, with denominator n.
func (c byClass) within(ctx context.Context, phi blas32.General, means blas64.General) (*mat.SymDense, error) {
	h := phi.Cols
	a := mat.NewSymDense(h, nil)
	block := newMatrix64(min(spectrumBlock, phi.Rows), h)
	for first := 0; first < phi.Rows; first += spectrumBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		block.Rows = min(spectrumBlock, phi.Rows-first)
		for i := range block.Rows {
			mean := means.Data[c.of[first+i]*means.Stride:]
			to := block.Data[i*h : (i+1)*h]
			for j, v := range row(phi, first+i) {
				to[j] = float64(v) - mean[j]
			}
		}
		blas64.Syrk(blas.Trans, 1/float64(phi.Rows), block, 1, a.RawSymmetric())
	}
	return a, nil
}

func newMatrix64(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float64, rows*cols)}
}
