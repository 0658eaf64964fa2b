// Package classes says which class training rows are of, and fits Gaussians to
// them.
package classes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/gaussian"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/sharing"
	"github.com/attach-uncertainty/attach/ood"
)

// assignment is which class each training row is of. Classes without rows are
// left out and the others numbered from 0.
type assignment struct {
	of []int // n
	n  int
}

// assign takes the labels, or where there are none the largest logit.
func assign(t ood.Training) (assignment, error) {
	raw := t.Labels
	if len(raw) == 0 {
		if t.Logits.Cols == 0 {
			return assignment{}, ErrNoClasses
		}
		raw = rows.Argmax(t.Logits)
	}
	present := slices.Compact(slices.Sorted(slices.Values(raw)))
	c := assignment{of: make([]int, len(raw)), n: len(present)}
	for i, y := range raw {
		c.of[i], _ = slices.BinarySearch(present, y)
	}
	return c, nil
}

// ErrNoClasses says that a method which asks for the classes of the rows it is
// fitted with found neither labels nor logits.
var ErrNoClasses = errors.New("neither labels nor logits say which class a row is of")

// Cloud is which of a training's rows classes are fitted to.
type Cloud struct {
	Layer int  // or Features
	Unit  bool // scaled to unit norm
	One   bool // all of one class, where nothing says which
}

// Features stands for the features in place of a layer's number.
const Features = -1

// Rows are those of b that the cloud is of.
func (c Cloud) Rows(b ood.Batch) blas32.General {
	x := b.Features
	if c.Layer != Features {
		x = b.Layers[c.Layer]
	}
	if c.Unit {
		return rows.Unit(x)
	}
	return x
}

func (c Cloud) classes(t ood.Training) (assignment, error) {
	if c.One && (t.Regression || len(t.Labels) == 0 && t.Logits.Cols == 0) {
		return assignment{of: make([]int, t.Len()), n: 1}, nil
	}
	return assign(t)
}

// Moments are those of the cloud about its classes' means. Those of a fold come
// from those of all rows.
func (c Cloud) Moments(ctx context.Context, t ood.Training) (*gaussian.Moments, error) {
	return sharing.Cached(t.Batch, c, func() (*gaussian.Moments, error) {
		if t.Whole == nil {
			classes, err := c.classes(t)
			if err != nil {
				return nil, err
			}
			return gaussian.Measure(ctx, c.Rows(t.Batch), classes.of, classes.n)
		}
		whole, err := c.Moments(ctx, *t.Whole)
		if err != nil {
			return nil, err
		}
		classes, err := c.classes(*t.Whole)
		if err != nil {
			return nil, err
		}
		of := make([]int, len(t.Held))
		for i, r := range t.Held {
			of[i] = classes.of[r]
		}
		return whole.Without(ctx, c.Rows(t.Whole.Batch.Select(t.Held)), of)
	})
}

// Fit fits one covariance about class means, inverted with the parameter
// "shrinkage".
func (c Cloud) Fit(ctx context.Context, t ood.Training, p ood.Params) (gaussian.Classes, error) {
	m, err := c.Moments(ctx, t)
	if err != nil {
		return gaussian.Classes{}, err
	}
	w, err := gaussian.NewWhitening(m.Mean(), m.Within(), p.Float("shrinkage"))
	if err != nil {
		return gaussian.Classes{}, fmt.Errorf("within their classes, %w", err)
	}
	return gaussian.NewClasses(w, m.Means()), nil
}

// Shrinkage is the parameter "shrinkage".
func Shrinkage(otherwise float64, sweep ...any) ood.Param {
	return ood.Param{Name: "shrinkage", Default: otherwise, Takes: "least=0,most=1", Sweep: sweep}
}

// LeastShrinkage keeps directions that hardly vary in-domain from drowning all
// others.
const LeastShrinkage = .001
