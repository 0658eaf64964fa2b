package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
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
	if !c.unit {
		return x
	}
	unit := blas32.General{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols, Data: make([]float32, x.Rows*x.Cols)}
	unitRows(unit, x)
	return unit
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
	return ood.Cached(t, c, func() (*gaussian.Moments, error) {
		if t.Fold == nil {
			classes, err := c.classes(t)
			if err != nil {
				return nil, err
			}
			x := c.rows(t.Batch)
			if x.Rows != len(classes.of) {
				return nil, fmt.Errorf("%d rows of features but the classes of %d", x.Rows, len(classes.of))
			}
			return gaussian.Measure(ctx, x, classes.of, classes.n)
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

// fit fits one covariance about class means, inverted with every shrinkage.
func (c cloud) fit(ctx context.Context, t ood.Training, shrinkages []float64) ([]gaussian.Classes, error) {
	m, err := c.moments(ctx, t)
	if err != nil {
		return nil, err
	}
	within, mean, means := m.Within(), m.Mean(), m.Means()
	fitted := make([]gaussian.Classes, len(shrinkages))
	for i, shrinkage := range shrinkages {
		w, err := gaussian.NewWhitening(mean, within, shrinkage)
		if err != nil {
			return nil, fmt.Errorf("within their classes, %w", err)
		}
		fitted[i] = gaussian.NewClasses(w, means)
	}
	return fitted, nil
}

// readShrinkages reads the parameter of that name.
func readShrinkages(grid []ood.Params, otherwise float64) ([]float64, error) {
	shrinkages := make([]float64, len(grid))
	for i, p := range grid {
		r := p.Reader()
		shrinkages[i] = r.NonNegative("shrinkage", otherwise)
		if err := r.Err(); err != nil {
			return nil, err
		}
		if shrinkages[i] > 1 {
			return nil, fmt.Errorf("parameter %q must be in [0,1], not %v", "shrinkage", shrinkages[i])
		}
	}
	return shrinkages, nil
}

// storeWhitening puts a whitening into a state, under names that begin with
// prefix.
func storeWhitening(s heads.State, prefix string, w gaussian.Whitening) {
	s.Params[prefix+"rank"] = float64(w.Projection.Cols)
	s.Arrays[prefix+"mean"] = heads.Vector(w.Mean)
	s.Arrays[prefix+"projection"] = storedMatrix(w.Projection)
}

func restoreWhitening(s heads.State, prefix string) (w gaussian.Whitening, err error) {
	rank, err := whole(s, prefix+"rank", 1)
	if err != nil {
		return w, err
	}
	if w.Mean, err = s.Float64s(prefix + "mean"); err != nil {
		return w, err
	}
	w.Projection, err = restoredMatrix(s, prefix+"projection", len(w.Mean), rank)
	return w, err
}

func storeClasses(s heads.State, c gaussian.Classes) {
	storeWhitening(s, "", c.Whitening)
	s.Params["classes"] = float64(c.Means.Rows)
	s.Arrays["classes"] = storedMatrix(c.Means)
}

func restoreClasses(s heads.State) (gaussian.Classes, error) {
	w, err := restoreWhitening(s, "")
	if err != nil {
		return gaussian.Classes{}, err
	}
	classes, err := whole(s, "classes", 1)
	if err != nil {
		return gaussian.Classes{}, err
	}
	means, err := restoredMatrix(s, "classes", classes, w.Projection.Cols)
	if err != nil {
		return gaussian.Classes{}, err
	}
	if (means.Single == nil) != (w.Projection.Single == nil) {
		return gaussian.Classes{}, fmt.Errorf("arrays %q and %q are of different precision", "projection", "classes")
	}
	return gaussian.RestoreClasses(w, means), nil
}

func storedMatrix(m gaussian.Matrix) heads.Array {
	a := heads.Array{Shape: []int{m.Rows, m.Cols}, Data: m.Double}
	if m.Single != nil {
		a.Data = m.Single
	}
	return a
}

func restoredMatrix(s heads.State, name string, h, k int) (gaussian.Matrix, error) {
	if _, single := s.Arrays[name].Data.([]float32); !single {
		m, err := matrix64(s, name, h, k)
		return gaussian.Matrix{Rows: h, Cols: k, Double: m.Data}, err
	}
	m, err := s.General(name)
	if err == nil && (m.Rows != h || m.Cols != k) {
		err = fmt.Errorf("array %q is %d×%d, not %d×%d", name, m.Rows, m.Cols, h, k)
	}
	return gaussian.Matrix{Rows: h, Cols: k, Single: m.Data}, err
}

// rootsOf replaces squared distances by distances.
func rootsOf(squared []float64) []float64 {
	for i, v := range squared {
		squared[i] = math.Sqrt(v)
	}
	return squared
}

func newMatrix64(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float64, rows*cols)}
}
