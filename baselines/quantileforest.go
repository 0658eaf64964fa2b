package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/trees"
	"github.com/attach-uncertainty/attach/ood"
)

// QuantileForest predicts from the training targets that share leaves with a
// row.
var QuantileForest = heads.QuantileMethod{
	Name: "quantile-forest",
	Doc: "Quantile regression forest: the quantiles of the training targets, weighted by how often a row shares their leaves. " +
		"n_estimators trees reduce the variance on bootstrap samples; max_depth=0 grows them until leaves are pure or have fewer than min_samples_split rows. " +
		"max_features is the share of the inputs that a split looks at. " +
		"bins=0 looks at every split where there are few rows and at those between 255 bins where there are many; bins=-1 always at every split. " +
		"Several targets have a forest each.",
	Ref: "Meinshausen 2006; Tagasovska & Lopez-Paz 2019, table 1 and appendix C",
	Default: map[string]any{
		"n_estimators": 100., "max_depth": 0., "min_samples_split": 2., "min_samples_leaf": 1., "max_features": 1., "bins": 0.,
	},
	Grid: forestGrid(),
	Fit: func(ctx context.Context, r heads.Regression, params map[string]any) (heads.QuantileRegressor, error) {
		fitted, err := fitForests(ctx, r, []uint64{r.Seed}, []map[string]any{params})
		if err != nil {
			return nil, err
		}
		return fitted[0][0], nil
	},
	FitGrid: fitForests,
	Restore: RestoreQuantileForest,
}

func forestGrid() []map[string]any {
	var grid []map[string]any
	for _, n := range []float64{100, 1000} {
		for _, split := range []float64{3, 9, 15} {
			for _, depth := range []float64{3, 5} {
				grid = append(grid, map[string]any{"n_estimators": n, "min_samples_split": split, "max_depth": depth})
			}
		}
	}
	return grid
}

// forestKey is what forests that grow together have in common.
type forestKey struct {
	minLeaf, bins int
	maxFeatures   float64
}

// mostTrees bounds what parameters ask of memory before any tree is grown.
const mostTrees = 1_000_000

func fitForests(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error) {
	if err := checkRegression(r, "a quantile forest"); err != nil {
		return nil, err
	}
	groups := map[forestKey][]int{}
	var keys []forestKey
	prunings := make([]trees.Pruning, len(grid))
	for g, params := range grid {
		p := ood.Params(params).Reader()
		prunings[g] = trees.Pruning{
			Trees: p.Between("n_estimators", 100, 1, mostTrees), MaxDepth: p.Int("max_depth", 0), MinSplit: p.Int("min_samples_split", 2),
		}
		key := forestKey{minLeaf: p.Count("min_samples_leaf", 1), maxFeatures: p.Positive("max_features", 1), bins: p.Int("bins", 0)}
		if err := p.Err(); err != nil {
			return nil, err
		}
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], g)
	}
	total := 0
	for _, key := range keys {
		most := 0
		for _, g := range groups[key] {
			most = max(most, prunings[g].Trees)
		}
		total += most * len(seeds) * r.Y.Cols
	}
	step := shareOf(total, r.Progress)

	result := make([][]heads.QuantileRegressor, len(seeds))
	for s := range seeds {
		result[s] = make([]heads.QuantileRegressor, len(grid))
		for g := range grid {
			result[s][g] = &quantileForest{cols: r.X.Cols}
		}
	}
	arranged := map[int]*trees.Data{}
	for _, key := range keys {
		data, ok := arranged[key.bins]
		if !ok {
			var err error
			if data, err = trees.NewData(r.X, key.bins); err != nil {
				return nil, err
			}
			arranged[key.bins] = data
		}
		var together []trees.Pruning
		for _, g := range groups[key] {
			together = append(together, prunings[g])
		}
		for s, seed := range seeds {
			for t := range r.Y.Cols {
				o := trees.ForestOptions{Seed: seed, Progress: func(int, int) { step() }}
				o.MinLeaf, o.MaxFeatures = key.minLeaf, key.maxFeatures
				forests, err := trees.GrowForests(ctx, data, targetColumn(r.Y, t), o, together)
				if err != nil {
					return nil, err
				}
				for i, g := range groups[key] {
					f := result[s][g].(*quantileForest)
					f.forests = append(f.forests, forests[i])
				}
			}
		}
	}
	return result, nil
}

// quantileForest has a forest for each target.
type quantileForest struct {
	cols    int
	forests []*trees.Forest
}

// Quantiles implements heads.QuantileRegressor. A row that holds NaN has
// quantiles NaN.
func (f *quantileForest) Quantiles(x blas32.General, levels []float64) heads.Quantiles {
	q := newQuantiles(x, f.cols, len(f.forests), levels)
	if len(f.forests) == 1 {
		f.forests[0].Quantiles(q.Data, x, levels)
	} else {
		one := make([]float32, x.Rows*len(levels))
		for t, forest := range f.forests {
			forest.Quantiles(one, x, levels)
			for i := range x.Rows {
				copy(q.Row(i, t), one[i*len(levels):(i+1)*len(levels)])
			}
		}
	}
	spoil(q, x)
	return q
}
