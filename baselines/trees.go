package baselines

import (
	"context"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/trees"
	"github.com/attach-uncertainty/attach/ood"
)

// treeCountConstraint limits the number of trees, and so the memory of a fit.
const treeCountConstraint = "count,most=1000000"

// splitParams returns the parameters of the search for splits.
func splitParams() []ood.Param {
	return []ood.Param{{Name: "max_features", Default: 1, Takes: "positive,most=1"}, {Name: "bins", Default: 0, Takes: "count,least=-1"}}
}

// treeOptions returns the options that limit the growth of trees.
func treeOptions(p ood.Params) trees.Options {
	return trees.Options{
		MaxDepth: p.Int("max_depth"), MinSplit: p.Int("min_samples_split"), MinLeaf: p.Int("min_samples_leaf"), MaxFeatures: p.Float("max_features"),
	}
}

// treeData arranges the training features for trees. All methods with the same number of
// bins share the result.
func treeData(ctx context.Context, t ood.Training, bins int) (*trees.Data, error) {
	type key struct{ bins int }
	return memo.Cached(ctx, t.Batch, key{bins}, func() (*trees.Data, error) { return trees.NewData(t.Features, bins) })
}

// targetColumn returns a copy of target t of y.
func targetColumn(y blas32.General, t int) []float32 {
	column := make([]float32, y.Rows)
	for i := range column {
		column[i] = y.Data[i*y.Stride+t]
	}
	return column
}

// stepProgress returns a function that counts one step and reports progress. Several
// goroutines may call it: calls of progress do not overlap, and the fraction never
// decreases.
func stepProgress(total int, progress func(fraction float64)) (step func()) {
	var mu sync.Mutex
	done := 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		progress(float64(done) / float64(total))
	}
}
