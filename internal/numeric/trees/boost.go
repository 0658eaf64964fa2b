package trees

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// BoostOptions configures gradient boosting of the pinball loss.
type BoostOptions struct {
	Options
	Level        float64 // in (0,1)
	Trees        int
	LearningRate float64
	Seed         uint64 // used only if MaxFeatures is below 1
	// Threads is the number of goroutines that search columns for splits. 0 stands for
	// GOMAXPROCS.
	Threads int
	Grown   func() // called after every tree, if not nil
}

// Boosted is a sum of trees that predicts one quantile.
type Boosted struct {
	Base         float64   `state:"base"` // the prediction without trees
	LearningRate float64   `state:"learning_rate"`
	Trees        Trees     `state:"trees"`
	Values       []float64 `state:"value[leaves]"` // value of each leaf of each tree, not scaled by the learning rate
}

// Boost fits one quantile of a target with one value for each row of data. It follows Friedman
// (2001): each tree is fitted to the negative gradient of the pinball loss, and each leaf
// contains the quantile of its residuals.
func Boost(ctx context.Context, data *Data, y []float32, o BoostOptions) (*Boosted, error) {
	if len(y) != data.rows {
		panic(fmt.Sprintf("trees: %d targets of %d rows", len(y), data.rows))
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	targets := make([]float64, len(y))
	for i, v := range y {
		targets[i] = float64(v)
	}
	b := &Boosted{Base: quantile.Percentile(targets, 100*o.Level), LearningRate: o.LearningRate}
	g := newGrower(data, o.Options, o.Threads)
	residuals := &residuals{values: make([]float64, len(y))}
	predicted, gradients := make([]float64, len(y)), make([]float64, len(y))
	for i := range predicted {
		predicted[i] = b.Base
	}
	for k := range o.Trees {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// The negative gradient is τ if the target is above the prediction, and τ−1 if it is
		// below. Adding 1−τ changes no split and makes sums exact.
		//
		// A target equal to the prediction counts as above, as in scikit-learn 1.9 (but not
		// 1.2). At a high level, the first prediction is often the largest target. If such
		// targets counted as below, all gradients would be equal and no tree would split.
		for i, v := range y {
			gradients[i] = 0
			if float64(v) >= predicted[i] {
				gradients[i] = 1
			}
		}
		tree := g.grow(gradients, nil, o.Seed+uint64(k))
		values := residuals.quantiles(tree.Leaves, g.leaf, y, predicted, o.Level)
		for i, l := range g.leaf {
			predicted[i] += o.LearningRate * values[l]
		}
		b.Trees, b.Values = append(b.Trees, tree), append(b.Values, values...)
		if o.Grown != nil {
			o.Grown()
		}
	}
	return b, nil
}

// Predict sets dst to the predictions for the rows of x, n×d.
func (b *Boosted) Predict(dst []float64, x blas32.General) {
	if len(dst) != x.Rows {
		panic(fmt.Sprintf("trees: room for %d predictions of %d rows", len(dst), x.Rows))
	}
	chunks := (x.Rows + rowsAtOnce - 1) / rowsAtOnce
	inParallel(runtime.GOMAXPROCS(0), chunks, func(_, c int) {
		lo, hi := c*rowsAtOnce, min((c+1)*rowsAtOnce, x.Rows)
		for i := lo; i < hi; i++ {
			dst[i] = b.Base
		}
		values := b.Values
		for k := range b.Trees {
			t := &b.Trees[k]
			for i := lo; i < hi; i++ {
				dst[i] += b.LearningRate * values[t.Leaf(x.Data[i*x.Stride:i*x.Stride+x.Cols])]
			}
			values = values[t.Leaves:]
		}
	})
}

// residuals computes the quantiles of the residuals in each leaf.
type residuals struct {
	start  []int     // start of each leaf in values
	values []float64 // residuals, ordered by leaf
}

// quantiles returns the quantile of the residuals in each leaf: the smallest residual that is
// at least as large as a fraction level of the residuals of the leaf.
func (r *residuals) quantiles(leaves int, leaf []int32, y []float32, predicted []float64, level float64) []float64 {
	r.start = append(r.start[:0], make([]int, leaves+1)...)
	for _, l := range leaf {
		r.start[l+1]++
	}
	for l := range leaves {
		r.start[l+1] += r.start[l]
	}
	next := slices.Clone(r.start[:leaves])
	for i, l := range leaf {
		r.values[next[l]] = float64(y[i]) - predicted[i]
		next[l]++
	}
	values := make([]float64, leaves)
	for l := range values {
		leafResiduals := r.values[r.start[l]:r.start[l+1]]
		n := float64(len(leafResiduals))
		values[l] = quantile.Select(leafResiduals, int(min(max(math.Ceil(level*n-1e-9*n), 1), n))-1)
	}
	return values
}
