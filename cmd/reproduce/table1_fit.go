package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/fit"
)

// intervalJob is settings of one method that are fitted together, to one split of one
// set.
type intervalJob struct {
	set       uciSet
	data      uciData
	seed      int
	method    heads.QuantileMethod
	coverages []float64
	keys      [][]configKey // of each coverage and setting
	configs   []map[string]any
	epochs    int
	best      bool // keep the weights of the best epoch
}

// run fits the settings and measures their intervals. A setting whose training
// diverges gets results that say so.
func (j intervalJob) run(ctx context.Context, trainer heads.Trainer, progress func(share float64)) ([]record, error) {
	parts := splitRows(j.data.x.Rows, uint64(j.seed))
	half := len(parts.cal) / 2
	choosing, calibrating := parts.cal[:half], parts.cal[half:]
	r := heads.Regression{
		X: pick(j.data.x, parts.fit), Y: pick(j.data.y, parts.fit), Trainer: trainer,
		Levels: levelsOf(j.coverages[0]), Epochs: j.epochs, Seed: uint64(j.seed), Progress: progress,
	}
	if j.best {
		r.ValidationX, r.ValidationY = pick(j.data.x, choosing), pick(j.data.y, choosing)
	}
	configs := slices.Clone(j.configs)
	index := make([]int, len(configs))
	for g := range index {
		index[g] = g
	}
	var records []record
	var fitted [][]heads.QuantileRegressor
	began := time.Now()
	for len(configs) > 0 {
		var err error
		fitted, err = j.fit(ctx, r, configs)
		var diverged *fit.DivergedError
		if err == nil {
			break
		}
		if !errors.As(err, &diverged) || diverged.Model >= len(configs) {
			return nil, err
		}
		for c := range j.coverages {
			records = append(records, record{configKey: j.keys[c][index[diverged.Model]], Failed: err.Error()})
		}
		configs = slices.Delete(configs, diverged.Model, diverged.Model+1)
		index = slices.Delete(index, diverged.Model, diverged.Model+1)
	}
	seconds := time.Since(began).Seconds() / float64(max(len(configs), 1))
	var x []blas32.General
	var y [][]float64
	for _, rows := range [][]int{choosing, calibrating, parts.test} {
		x, y = append(x, pick(j.data.x, rows)), append(y, column(pick(j.data.y, rows)))
	}
	for g := range configs {
		crossing := 0.
		if c, ok := fitted[0][g].(interface{ CrossingRate(blas32.General) float64 }); ok && !j.method.LevelsOnly {
			crossing = c.CrossingRate(x[2])
		}
		for c, coverage := range j.coverages {
			m, err := measure(fitted[0][g], coverage, x, y, j.data.spread)
			if err != nil {
				return nil, err
			}
			m.configKey, m.Fit, m.Seconds, m.Crossing = j.keys[c][index[g]], len(parts.fit), seconds, crossing
			records = append(records, m)
		}
	}
	return records, nil
}

func (j intervalJob) fit(ctx context.Context, r heads.Regression, configs []map[string]any) ([][]heads.QuantileRegressor, error) {
	if j.method.FitGrid != nil {
		return j.method.FitGrid(ctx, r, []uint64{r.Seed}, configs)
	}
	one := make([]heads.QuantileRegressor, len(configs))
	for g, config := range configs {
		var err error
		if one[g], err = j.method.Fit(ctx, r, config); err != nil {
			return nil, err
		}
	}
	return [][]heads.QuantileRegressor{one}, nil
}

// measure reads rows to choose by, to calibrate on and to test on.
func measure(f heads.QuantileRegressor, coverage float64, x []blas32.General, y [][]float64, spread float64) (record, error) {
	levels := levelsOf(coverage)
	alpha := 2 * levels[0]
	var parts []ends
	for i := range x {
		parts = append(parts, endsOf(f, x[i], y[i], levels))
	}
	choosing, calibrating, test := parts[0], parts[1], parts[2]
	validation := choosing.with(calibrating)
	m := record{Validation: validation.measure(alpha, spread), Test: test.measure(alpha, spread), NCal: len(calibrating.y)}
	var errs [3]error
	m.Calibrated, errs[0] = test.conformalized(validation, alpha, spread)
	m.Honest, errs[1] = test.conformalized(calibrating, alpha, spread)
	m.Choosing, errs[2] = choosing.conformalized(choosing, alpha, spread)
	return m, errors.Join(errs[:]...)
}

// settingsOf is the grid of a method: all of it, or a few settings; networks
// with each of the dropout rates, where the method has none of its own, and
// with averaging.
func settingsOf(m heads.QuantileMethod, small bool, dropout []float64, averaging float64) []map[string]any {
	var grid []map[string]any
	for i, config := range m.Grid {
		if small && !inSmallGrid(m, i) {
			continue
		}
		if !m.NeedsTrainer {
			grid = append(grid, config)
			continue
		}
		rates := dropout
		if config["dropout"] != 0. {
			rates = []float64{config["dropout"].(float64)}
		}
		for _, rate := range rates {
			c := maps.Clone(config)
			c["dropout"] = rate
			if averaging > 0 {
				c["averaging"] = averaging
			}
			grid = append(grid, c)
		}
	}
	return grid
}

func inSmallGrid(m heads.QuantileMethod, i int) bool {
	config := m.Grid[i]
	if !m.NeedsTrainer {
		// A thousand trees cost little more than the first hundred of them, and
		// with the grid's learning rates a hundred are hardly a start.
		leaf, leaves := config["min_samples_leaf"]
		return config["min_samples_split"] == 9. && (!leaves || leaf == 9. && config["learning_rate"].(float64) >= 1e-3)
	}
	rate, decay, drop := config["learning_rate"].(float64), config["weight_decay"].(float64), config["dropout"].(float64)
	return rate >= 1e-3 && (decay == 0 || decay == 1e-2) && (drop == 0 || drop == .1 || drop == .5)
}
