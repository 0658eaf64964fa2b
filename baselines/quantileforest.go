package baselines

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/trees"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var quantileForestMethod = ood.Method{
	Name: "quantile-forest",
	Doc: "Quantile regression forest: quantiles of the training targets, weighted by how often a training row shares a leaf with the row. Use it for trees and tables: " +
		"`attach fit` compares it with gradient boosting. n_estimators trees reduce the variance on bootstrap samples. max_depth=0 grows trees until leaves are pure or have fewer " +
		"than min_samples_split rows. max_features is the fraction of the inputs that a split tries. bins=0 tries every split for few rows, and those between " +
		"255 bins for many; bins=-1 always tries every split. Each target has its own forest.",
	Ref:   "Meinshausen 2006; Tagasovska & Lopez-Paz 2019, table 1 and appendix C",
	Needs: ood.Needs{Features: true, Targets: true},
	Params: append([]ood.Param{
		{Name: "n_estimators", Default: 100, Takes: treeCountConstraint, Sweep: []any{100, 1000}},
		{Name: "min_samples_split", Default: 2, Takes: "count,least=2", Sweep: []any{3, 9, 15}},
		{Name: "max_depth", Default: 0, Takes: "count,least=0", Sweep: []any{3, 5}}, {Name: "min_samples_leaf", Default: 1, Takes: "count"},
	}, splitParams()...),
	Fit: fitQuantileForest,
	New: func() any { return &quantileForest{} },
}

// quantileForest has one forest for each target.
type quantileForest struct {
	Width   int             `state:"columns,dim=features"`
	Forests []*trees.Forest `state:"targets,least=1"`
}

func fitQuantileForest(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	data, err := treeData(ctx, t, p.Int("bins"))
	if err != nil {
		return nil, err
	}
	o := trees.ForestOptions{Options: treeOptions(p), Trees: p.Int("n_estimators"), Seed: t.Seed}
	o.Grown = stepProgress(o.Trees*t.Targets.Cols, t.Progress)
	s := &quantileForest{Width: t.Features.Cols}
	for target := range t.Targets.Cols {
		f, err := trees.GrowForest(ctx, data, targetColumn(t.Targets, target), o)
		if err != nil {
			return nil, err
		}
		s.Forests = append(s.Forests, f)
	}
	return s, nil
}

func (f *quantileForest) Restored() error {
	for t, forest := range f.Forests {
		if err := forest.Trees.Fit(f.Width, len(forest.Sizes)); err != nil {
			return fmt.Errorf("target %d: %w", t, err)
		}
	}
	return nil
}

func (f *quantileForest) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	q := ood.NewQuantiles(x.Rows, len(f.Forests), levels)
	targetQuantiles := make([]float32, x.Rows*len(levels))
	for t, forest := range f.Forests {
		forest.Quantiles(targetQuantiles, x, levels)
		for i := range x.Rows {
			copy(q.Row(i, t), targetQuantiles[i*len(levels):(i+1)*len(levels)])
		}
	}
	return q
}

func (f *quantileForest) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	var targets []graph.Tensor
	for _, forest := range f.Forests {
		q, err := forest.QuantilesGraph(x, levels)
		if err != nil {
			return q, err
		}
		targets = append(targets, q)
	}
	return graph.Stack(targets), nil
}

// QuantileBounds implements graph.BoundedQuantiles: a quantile is a training target.
func (f *quantileForest) QuantileBounds() (bounds []float64) {
	for _, forest := range f.Forests {
		bounds = append(bounds, float64(max(-forest.Values[0], forest.Values[len(forest.Values)-1])))
	}
	return bounds
}
