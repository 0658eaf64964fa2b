package baselines

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/dense"
	"github.com/attach-uncertainty/attach/internal/gaussian"
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
		raw = t.Predicted()
	}
	present := slices.Compact(slices.Sorted(slices.Values(raw)))
	c := byClass{of: make([]int, len(raw)), n: len(present)}
	for i, y := range raw {
		c.of[i], _ = slices.BinarySearch(present, y)
	}
	return c, nil
}

// cloud is which of a training's rows classes are fitted to.
type cloud struct {
	layer int  // or lastLayerFeatures
	unit  bool // scaled to unit norm
	one   bool // all of one class, where nothing says which
}

// lastLayerFeatures stands for the features in place of a layer's number.
const lastLayerFeatures = -1

func (c cloud) rows(b ood.Batch) blas32.General {
	x := b.Features
	if c.layer != lastLayerFeatures {
		x = b.Layers[c.layer]
	}
	if c.unit {
		return unitRows(x)
	}
	return x
}

func (c cloud) classes(t ood.Training) (byClass, error) {
	if c.one && (t.Regression || len(t.Labels) == 0 && !t.HasLogits()) {
		return byClass{of: make([]int, t.Len()), n: 1}, nil
	}
	return classesOf(t)
}

// moments are those of the cloud about its classes' means. Those of a fold come
// from those of all rows.
func (c cloud) moments(ctx context.Context, t ood.Training) (*gaussian.Moments, error) {
	return ood.Cached(t.Batch, c, func() (*gaussian.Moments, error) {
		if t.Fold == nil {
			classes, err := c.classes(t)
			if err != nil {
				return nil, err
			}
			return gaussian.Measure(ctx, c.rows(t.Batch), classes.of, classes.n)
		}
		whole, err := c.moments(ctx, t.Fold.Whole)
		if err != nil {
			return nil, err
		}
		classes, err := c.classes(t.Fold.Whole)
		if err != nil {
			return nil, err
		}
		of := make([]int, len(t.Fold.Held))
		for i, r := range t.Fold.Held {
			of[i] = classes.of[r]
		}
		return whole.Without(ctx, c.rows(t.Fold.Whole.Batch.Select(t.Fold.Held)), of)
	})
}

// fit fits one covariance about class means, inverted with the parameter
// "shrinkage".
func (c cloud) fit(ctx context.Context, t ood.Training, p ood.Values) (gaussian.Classes, error) {
	m, err := c.moments(ctx, t)
	if err != nil {
		return gaussian.Classes{}, err
	}
	w, err := gaussian.NewWhitening(m.Mean(), m.Within(), p.Float("shrinkage"))
	if err != nil {
		return gaussian.Classes{}, fmt.Errorf("within their classes, %w", err)
	}
	return gaussian.NewClasses(w, m.Means()), nil
}

// correctClasses returns the class that each training row is an example of: the
// one predicted for it, or −1 where its label says otherwise. Without labels
// predictions are believed.
func correctClasses(t ood.Training) ([]int, error) {
	classes := make([]int, t.Logits.Rows)
	right := 0
	for i := range classes {
		classes[i] = newSoftmax(row(t.Logits, i), 1).top
		if t.Labels != nil && t.Labels[i] != classes[i] {
			classes[i] = -1
			continue
		}
		right++
	}
	if right == 0 {
		return nil, errors.New("no training row is predicted as its label: are labels numbered as the network's outputs are? " +
			"Without labels, predictions are taken in their place")
	}
	return classes, nil
}

// classMeans are the mean rows of c classes; a class of −1 is none, and one
// without rows has a mean of zeros.
func classMeans(m blas32.General, classes []int, c int) blas64.General {
	means := dense.New(c, m.Cols)
	counts := make([]float64, c)
	for i, y := range classes {
		if y < 0 {
			continue
		}
		counts[y]++
		for j, v := range row(m, i) {
			means.Data[y*means.Stride+j] += float64(v)
		}
	}
	for y, n := range counts {
		for j := range m.Cols {
			means.Data[y*means.Stride+j] /= max(n, 1)
		}
	}
	return means
}
