package baselines

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

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

// moments counts the training rows by their classes.
func (c byClass) moments(ctx context.Context, phi blas32.General) (*heads.ClassMoments, error) {
	var m heads.ClassMoments
	for i := 0; i < phi.Rows; i += spectrumBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		j := min(i+spectrumBlock, phi.Rows)
		if err := m.Add(ood.Batch{Features: phi}.Slice(i, j).Features, c.of[i:j]); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

func newMatrix64(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float64, rows*cols)}
}
