package baselines

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/quantile"
	"github.com/attach-uncertainty/attach/internal/trees"
	"github.com/attach-uncertainty/attach/ood"
)

// Boosting predicts each level by a sum of trees of its own.
var Boosting = heads.QuantileMethod{
	Name: "gradient-boosting",
	Doc: "Gradient-boosted quantile trees: one model per level, each tree fitted to the negative gradient of the pinball loss, " +
		"its leaves set to the quantile of their residuals. " +
		"The levels of a row are sorted; between two fitted levels the quantile is linear, outside of them it is that of the nearest. " +
		"max_depth=0 is no limit. max_features is the share of the inputs that a split looks at: below 1 the seed matters. " +
		"bins=0 looks at every split where there are few rows and at those between 255 bins where there are many; bins=-1 always at every split. " +
		"Several targets have models each.",
	Ref:        "Friedman 2001; Tagasovska & Lopez-Paz 2019, table 1 and appendix C",
	LevelsOnly: true,
	Default: map[string]any{
		"n_estimators": 100., "learning_rate": 0.1, "max_depth": 3., "min_samples_split": 2., "min_samples_leaf": 1., "max_features": 1., "bins": 0.,
	},
	Grid: boostingGrid(),
	Fit: func(ctx context.Context, r heads.Regression, params map[string]any) (heads.QuantileRegressor, error) {
		fitted, err := fitBoosting(ctx, r, []uint64{r.Seed}, []map[string]any{params})
		if err != nil {
			return nil, err
		}
		return fitted[0][0], nil
	},
	FitGrid: fitBoosting,
	Restore: RestoreBoosting,
}

func boostingGrid() []map[string]any {
	var grid []map[string]any
	for _, n := range []float64{100, 1000} {
		for _, depth := range []float64{3, 9, 10} {
			for _, rate := range []float64{1e-2, 1e-3, 1e-4} {
				for _, leaf := range []float64{3, 9, 15} {
					for _, split := range []float64{3, 9, 15} {
						grid = append(grid, map[string]any{
							"n_estimators": n, "max_depth": depth, "learning_rate": rate,
							"min_samples_leaf": leaf, "min_samples_split": split,
						})
					}
				}
			}
		}
	}
	return grid
}

// boostingLevels are fitted where none are asked for.
var boostingLevels = []float64{0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975}

func fitBoosting(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error) {
	if err := checkRegression(r, "gradient boosting"); err != nil {
		return nil, err
	}
	levels, err := fittedLevels(r.Levels)
	if err != nil {
		return nil, err
	}
	fits := &boostingFits{r: r, levels: levels, at: map[boostingKey]int{}}
	result := make([][]heads.QuantileRegressor, len(seeds))
	type place struct{ fit, trees int }
	places := make([][]place, len(seeds))
	for s, seed := range seeds {
		for _, params := range grid {
			o, bins, err := boostingOptions(params)
			if err != nil {
				return nil, err
			}
			o.Seed = seed
			places[s] = append(places[s], place{fits.add(o, bins), o.Trees})
		}
	}
	if err := fits.run(ctx); err != nil {
		return nil, err
	}
	for s := range seeds {
		for _, p := range places[s] {
			b := &boosting{cols: r.X.Cols, levels: levels}
			for t := range r.Y.Cols {
				var models []*trees.Boosted
				for l := range levels {
					models = append(models, fits.models[p.fit][t*len(levels)+l].First(p.trees))
				}
				b.models = append(b.models, models)
			}
			result[s] = append(result[s], b)
		}
	}
	return result, nil
}

func boostingOptions(params map[string]any) (o trees.BoostOptions, bins int, err error) {
	p := ood.Params(params).Reader()
	o.Trees = p.Between("n_estimators", 100, 1, mostTrees)
	o.LearningRate = p.Positive("learning_rate", 0.1)
	o.MaxDepth = p.Int("max_depth", 3)
	o.MinSplit = p.Int("min_samples_split", 2)
	o.MinLeaf = p.Count("min_samples_leaf", 1)
	o.MaxFeatures = p.Positive("max_features", 1)
	bins = p.Int("bins", 0)
	return o, bins, p.Err()
}

// fittedLevels are the levels to fit, increasing and distinct.
func fittedLevels(levels []float64) ([]float64, error) {
	if len(levels) == 0 {
		return boostingLevels, nil
	}
	levels = slices.Compact(slices.Sorted(slices.Values(levels)))
	for _, l := range levels {
		if !(l > 0 && l < 1) {
			return nil, fmt.Errorf("a quantile's level must be in (0,1), not %v", l)
		}
	}
	return levels, nil
}

// boostingKey is what fits of different sizes have in common.
type boostingKey struct {
	options trees.Options
	rate    float64
	bins    int
	seed    uint64
}

// boostingFits is a list of distinct fits, each of all targets and levels.
type boostingFits struct {
	r      heads.Regression
	levels []float64
	at     map[boostingKey]int
	keys   []boostingKey
	trees  []int // of each fit, the most that are asked for
	models [][]*trees.Boosted
}

// add asks for a fit and returns its place. Where every split looks at every
// input, nothing is random, and seeds share a fit.
func (f *boostingFits) add(o trees.BoostOptions, bins int) int {
	key := boostingKey{o.Options, o.LearningRate, bins, o.Seed}
	if o.MaxFeatures == 1 {
		key.seed = 0
	}
	// A split needs two leaves' rows anyway.
	if o.MinSplit >= 2 {
		key.options.MinSplit = max(o.MinSplit, 2*o.MinLeaf)
	}
	at, ok := f.at[key]
	if !ok {
		at = len(f.keys)
		f.at[key] = at
		f.keys, f.trees = append(f.keys, key), append(f.trees, 0)
	}
	f.trees[at] = max(f.trees[at], o.Trees)
	return at
}

func (f *boostingFits) run(ctx context.Context) error {
	arranged := map[int]*trees.Data{}
	each := f.r.Y.Cols * len(f.levels)
	total := 0
	for i, key := range f.keys {
		total += f.trees[i] * each
		if arranged[key.bins] != nil {
			continue
		}
		data, err := trees.NewData(f.r.X, key.bins)
		if err != nil {
			return err
		}
		arranged[key.bins] = data
	}
	step := shareOf(total, f.r.Progress)
	f.models = make([][]*trees.Boosted, len(f.keys))
	threads := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(threads)
	for i, key := range f.keys {
		f.models[i] = make([]*trees.Boosted, each)
		for j := range each {
			group.Go(func() error {
				o := trees.BoostOptions{
					Options: key.options, Level: f.levels[j%len(f.levels)], Trees: f.trees[i], LearningRate: key.rate,
					Seed: key.seed, Threads: max(1, threads/(each*len(f.keys))), Progress: func(int, int) { step() },
				}
				var err error
				f.models[i][j], err = trees.Boost(ctx, arranged[key.bins], targetColumn(f.r.Y, j/len(f.levels)), o)
				return err
			})
		}
	}
	return group.Wait()
}

// boosting has a model for each target and level.
type boosting struct {
	cols   int
	levels []float64 // increasing
	models [][]*trees.Boosted
}

// Quantiles implements heads.QuantileRegressor. A row that holds NaN has
// quantiles NaN.
func (b *boosting) Quantiles(x blas32.General, levels []float64) heads.Quantiles {
	q := newQuantiles(x, b.cols, len(b.models), levels)
	predicted := make([]float64, x.Rows)
	grid := make([]float32, x.Rows*len(b.levels))
	for t, models := range b.models {
		for l, m := range models {
			m.Predict(predicted, x)
			for i, v := range predicted {
				grid[i*len(b.levels)+l] = float32(v)
			}
		}
		for i := range x.Rows {
			at := grid[i*len(b.levels) : (i+1)*len(b.levels)]
			slices.Sort(at)
			out := q.Row(i, t)
			for l, tau := range levels {
				out[l] = quantile.Interpolate(b.levels, at, tau)
			}
		}
	}
	spoil(q, x)
	return q
}
