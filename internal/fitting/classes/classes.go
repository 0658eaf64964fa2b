// Package classes assigns training rows to classes and fits a Gaussian to each.
package classes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// assignment holds the class of each training row. Classes without rows have no number, and
// the other classes are numbered from 0.
type assignment struct {
	class []int // one class for each row
	n     int   // number of classes
}

// assign assigns each row to the class of its label. If there are no labels, it uses the
// class with the largest logit.
func assign(t ood.Training) (assignment, error) {
	raw := t.Labels
	if len(raw) == 0 {
		if t.Logits.Cols == 0 {
			return assignment{}, ErrNoClasses
		}
		raw = rows.Argmax(t.Logits)
	}
	present := slices.Compact(slices.Sorted(slices.Values(raw)))
	c := assignment{class: make([]int, len(raw)), n: len(present)}
	for i, y := range raw {
		c.class[i], _ = slices.BinarySearch(present, y)
	}
	return c, nil
}

// ErrNoClasses is the error of a method that needs the classes of its fit rows if the rows
// have no labels and no logits.
var ErrNoClasses = errors.New("neither labels nor logits say which class a row is of")

// Cloud selects the matrix of a training that Gaussians are fitted to, and how its rows are
// scaled.
type Cloud struct {
	Layer    int     // index of an earlier layer, or Features
	Exponent float64 // each row is divided by its norm to this power
	One      bool    // put all rows into one class if their classes are unknown
}

// Features, as a value of Cloud.Layer, selects the features instead of an earlier layer.
const Features = -1

// Rows returns the selected matrix of b with scaled rows.
func (c Cloud) Rows(b ood.Batch) blas32.General {
	x := b.Features
	if c.Layer != Features {
		x = b.Layers[c.Layer]
	}
	return c.scaled(x)
}

func (c Cloud) scaled(x blas32.General) blas32.General {
	if c.Exponent == 0 {
		return x
	}
	return rows.Radial(x, c.Exponent)
}

// Graph computes Rows on graph tensors.
func (c Cloud) Graph(b graph.Batch) graph.Tensor {
	x := b.Features
	if c.Layer != Features {
		x = b.Layers[c.Layer]
	}
	if c.Exponent == 0 {
		return x
	}
	return x.Double().Mul(x.Norm().Max(1e-60).Log().Mul(-c.Exponent).Exp()).Single()
}

func (c Cloud) classes(t ood.Training) (assignment, error) {
	if c.One && (t.Regression || len(t.Labels) == 0 && t.Logits.Cols == 0) {
		return assignment{class: make([]int, t.Len()), n: 1}, nil
	}
	return assign(t)
}

// Moments returns the moments of the selected rows about their class means. If t is a part
// of a larger training, its moments are derived from the moments of all rows of that
// training.
func (c Cloud) Moments(ctx context.Context, t ood.Training) (*moments.Moments, error) {
	return memo.Cached(ctx, t.Batch, c, func() (*moments.Moments, error) {
		all, held, wholeCtx := memo.Whole(ctx, t)
		if all == nil {
			classes, err := c.classes(t)
			if err != nil {
				return nil, err
			}
			return moments.Of(ctx, c.Rows(t.Batch), classes.class, classes.n)
		}
		whole, err := c.Moments(wholeCtx, *all)
		if err != nil {
			return nil, err
		}
		classes, err := c.classes(*all)
		if err != nil {
			return nil, err
		}
		class := make([]int, len(held))
		for i, r := range held {
			class[i] = classes.class[r]
		}
		return whole.Without(ctx, c.Rows(all.Batch.Select(held)), class)
	})
}

// Fit fits class means and one shared covariance. The parameter "shrinkage" controls the
// inverse of the covariance.
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

// Radial declares the parameters "unit_norm" and "exponent", which divide rows by a power
// of their norm.
func Radial() []ood.Param {
	return []ood.Param{{Name: "unit_norm", Default: false, Sweep: []any{false, true}}, {Name: "exponent", Default: 1, Takes: "least=0,most=4"}}
}

// Scaled returns the cloud with the exponent that the parameters of Radial select. If the
// parameter "exponent" is 0, Scaled chooses among steps of 0.25 up to 1.5 by an experiment.
// It fits class means to four fifths of the rows and holds out the rest. The best exponent
// separates held-out rows best from midpoints between held-out rows of different classes.
// If exponents are equally good, it prefers 1. With fewer than 10 rows, the exponent is 1.
func (c Cloud) Scaled(ctx context.Context, t ood.Training, p ood.Params) (Cloud, error) {
	c.Exponent = p.Float("exponent")
	switch {
	case !p["unit_norm"].(bool):
		c.Exponent = 0
		return c, nil
	case c.Exponent > 0 || t.Len() < 2*exponentFolds:
		c.Exponent = cmp.Or(c.Exponent, 1)
		return c, nil
	}
	assigned, err := c.classes(t)
	if err != nil {
		return c, err
	}
	held := rows.Folds(t.Len(), exponentFolds, t.Seed)[0]
	foldCtx, fold := memo.Without(ctx, t, held)
	in := c.Rows(t.Batch.Select(held))
	midpoints := rows.New(in.Rows, in.Cols)
	for i := range held {
		partner := (i + len(held)/2) % len(held)
		for try := 1; assigned.class[held[partner]] == assigned.class[held[i]] && try < len(held); try++ {
			partner = (partner + 1) % len(held)
		}
		for j, v := range rows.Row(in, i) {
			rows.Row(midpoints, i)[j] = (v + rows.Row(in, partner)[j]) / 2
		}
	}
	bestAUROC, bestExponent := 0., 1.
	for _, exponent := range []float64{1, .75, 1.25, .5, 1.5, .25, 0} {
		c.Exponent = exponent
		g, err := c.Fit(foldCtx, fold, p)
		if err != nil {
			return c, err
		}
		var distances [2][]float64
		for k, x := range []blas32.General{in, midpoints} {
			distances[k] = make([]float64, x.Rows)
			if err := g.Nearest(ctx, distances[k], c.scaled(x)); err != nil {
				return c, err
			}
		}
		auroc, err := measure.AUROC(distances[0], distances[1])
		if err != nil {
			return c, err
		}
		if auroc > bestAUROC {
			bestAUROC, bestExponent = auroc, exponent
		}
	}
	c.Exponent = bestExponent
	return c, nil
}

// exponentFolds is the number of folds for the choice of an exponent. One of them is held
// out.
const exponentFolds = 5

// Shrinkage declares the parameter "shrinkage".
func Shrinkage(defaultValue float64, sweep ...any) ood.Param {
	return ood.Param{Name: "shrinkage", Default: defaultValue, Takes: "least=0,most=1", Sweep: sweep}
}

// LeastShrinkage is a shrinkage that is just large enough to keep directions with almost no
// in-distribution variance from dominating all others.
const LeastShrinkage = .001
