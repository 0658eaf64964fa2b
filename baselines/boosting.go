package baselines

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/numeric/trees"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var boostingMethod = ood.Method{
	Name: "gradient-boosting",
	Doc: "Gradient-boosted quantile trees, one model for each level. Use it for tables and few levels, because each level has its own trees. Each tree is " +
		"fitted to the negative gradient of the pinball loss, and its leaves are set to the quantile of their residuals. The levels of a row are sorted. " +
		"Quantiles are linear between two fitted levels and constant beyond them. max_depth=0 is no limit. max_features is the fraction of the inputs that a " +
		"split tries; below 1 the seed matters. bins=0 tries every split for few rows, and those between 255 bins for many; bins=-1 always tries every split. " +
		"Each target has its own models.",
	Ref:   "Friedman 2001; Tagasovska & Lopez-Paz 2019, table 1 and appendix C",
	Needs: ood.Needs{Features: true, Targets: true, Levels: true},
	Params: append([]ood.Param{
		{Name: "n_estimators", Default: 100, Takes: treeCountConstraint, Sweep: []any{100, 1000}},
		{Name: "max_depth", Default: 3, Takes: "count,least=0", Sweep: []any{3, 9, 10}},
		{Name: "learning_rate", Default: 0.1, Takes: "positive", Sweep: []any{1e-2, 1e-3, 1e-4}},
		{Name: "min_samples_leaf", Default: 1, Takes: "count", Sweep: []any{3, 9, 15}},
		{Name: "min_samples_split", Default: 2, Takes: "count,least=2", Sweep: []any{3, 9, 15}},
	}, splitParams()...),
	Fit: fitBoosting,
	New: func() any { return &boosting{} },
}

// boosting has one boosted model for each pair of a target and a level.
type boosting struct {
	Width  int              `state:"columns,dim=features"`
	Levels []float64        `state:"levels[l],rising,positive,below=1"` // distinct levels of the models
	Models []*trees.Boosted `state:"models,least=1"`                    // ordered by target, then by level
}

func fitBoosting(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	data, err := treeData(ctx, t, p.Int("bins"))
	if err != nil {
		return nil, err
	}
	b := &boosting{Width: t.Features.Cols, Levels: t.Levels, Models: make([]*trees.Boosted, t.Targets.Cols*len(t.Levels))}
	o := trees.BoostOptions{Options: treeOptions(p), Trees: p.Int("n_estimators"), LearningRate: p.Float("learning_rate"), Seed: t.Seed}
	threads := runtime.GOMAXPROCS(0)
	o.Threads, o.Grown = max(1, threads/len(b.Models)), stepProgress(o.Trees*len(b.Models), t.Progress)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(threads)
	for j := range b.Models {
		o := o
		o.Level = t.Levels[j%len(t.Levels)]
		group.Go(func() (err error) {
			b.Models[j], err = trees.Boost(ctx, data, targetColumn(t.Targets, j/len(t.Levels)), o)
			return err
		})
	}
	return b, group.Wait()
}

func (b *boosting) Restored() error {
	if len(b.Models)%len(b.Levels) != 0 {
		return fmt.Errorf("%d models for %d levels", len(b.Models), len(b.Levels))
	}
	for i, m := range b.Models {
		if err := m.Trees.Fit(b.Width, len(m.Values)); err != nil {
			return fmt.Errorf("model %d: %w", i, err)
		}
	}
	for l := range b.Levels[1:] {
		if b.Levels[l] == b.Levels[l+1] {
			return fmt.Errorf("level %v occurs twice", b.Levels[l])
		}
	}
	return nil
}

func (b *boosting) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	n := len(b.Levels)
	q := ood.NewQuantiles(x.Rows, len(b.Models)/n, levels)
	predicted, grid := make([]float64, x.Rows), make([]float32, x.Rows*n)
	for t := range q.Targets {
		for l, m := range b.Models[t*n : (t+1)*n] {
			m.Predict(predicted, x)
			for i, v := range predicted {
				grid[i*n+l] = float32(v)
			}
		}
		for i := range x.Rows {
			at := grid[i*n : (i+1)*n]
			slices.Sort(at)
			out := q.Row(i, t)
			for l, tau := range levels {
				out[l] = quantile.Interpolate(b.Levels, at, tau)
			}
		}
	}
	return q
}

func (b *boosting) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	var all trees.Trees
	var values, base []float64
	var models []int // model of each tree
	for i, m := range b.Models {
		all, base = append(all, m.Trees...), append(base, m.Base)
		for _, v := range m.Values {
			values = append(values, m.LearningRate*v)
		}
		for range m.Trees {
			models = append(models, i)
		}
	}
	sums, err := all.Graph(x, values, func(tree int) int { return models[tree] }, len(b.Models))
	if err != nil {
		return sums, err
	}
	n := len(b.Levels)
	return sums.Add(base).Reshape(-1, int64(len(b.Models)/n), int64(n)).Sorted().Interpolate(b.Levels, levels), nil
}

// QuantileBounds implements graph.BoundedQuantiles.
func (b *boosting) QuantileBounds() []float64 {
	n := len(b.Levels)
	bounds := make([]float64, len(b.Models)/n)
	for i, m := range b.Models {
		bound, values := math.Abs(m.Base), m.Values
		for _, tree := range m.Trees {
			var largest float64
			for _, v := range values[:tree.Leaves] {
				largest = max(largest, math.Abs(v))
			}
			bound += math.Abs(m.LearningRate) * largest
			values = values[tree.Leaves:]
		}
		bounds[i/n] = max(bounds[i/n], 1.001*bound) // the graph adds in float32
	}
	return bounds
}
