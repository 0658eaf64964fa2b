package table1

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/ood"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// record is one line of the results file.
type record struct {
	intervals.Case
	Fit        int                `json:"n_fit"`
	Validation intervals.Measured `json:"validation"`
	Test       intervals.Measured `json:"test"`
	// Calibrated measures intervals conformalized on all validation rows. It is optimistic
	// because the same rows choose the configuration.
	Calibrated intervals.Measured `json:"cqr_reused"`
	// Honest measures test intervals that are conformalized on NCal validation rows, one
	// half of all validation rows. The other half chooses the epoch and the configuration.
	// Choosing measures intervals of this other half, conformalized on the same rows. The
	// configuration whose Choosing intervals are narrowest is chosen.
	Honest   intervals.Measured `json:"cqr"`
	Choosing intervals.Measured `json:"cqr_choosing"`
	NCal     int                `json:"n_cal"`
	// Crossing is the fraction of neighbouring levels that cross before sorting, for methods
	// that predict all levels.
	Crossing float64 `json:"crossing,omitempty"`
	Seconds  float64 `json:"seconds"` // time of fitting; configurations fitted together share it equally
	Failed   string  `json:"failed,omitempty"`
}

// fitJob fits several configurations of one method together, on one split of one set.
type fitJob struct {
	set       uci.Set
	data      uci.Data
	seed      int
	method    ood.Method
	coverages []float64
	keys      [][]intervals.Case // by coverage and configuration
	configs   []ood.Params
	epochs    int
	best      bool // reports whether to keep the weights of the best epoch
}

// run fits the configurations and measures their intervals. If training of a configuration
// diverges, Failed is set in its records.
func (f fitJob) run(ctx context.Context, trainer train.Trainer, progress func(fraction float64)) ([]record, error) {
	parts := experiment.SplitRows(f.data.X.Rows, uint64(f.seed))
	middle := len(parts.Cal) / 2
	fit, choosing, calibrating, test := f.data.Select(parts.Fit), f.data.Select(parts.Cal[:middle]), f.data.Select(parts.Cal[middle:]), f.data.Select(parts.Test)
	r := ood.Training{
		Batch: ood.Batch{Features: fit.X}, Targets: fit.Y, Trainer: trainer,
		Levels: intervals.LevelsOf(f.coverages[0]), Seed: uint64(f.seed), Progress: progress,
	}
	if f.best {
		r.Validation, r.ValidationTargets = choosing.X, choosing.Y
	}
	var configs []ood.Params
	for _, config := range f.configs {
		config = maps.Clone(config)
		if f.epochs > 0 {
			config["epochs"] = f.epochs
		}
		configs = append(configs, config)
	}
	index := experiment.Indices(len(configs))
	var records []record
	var fitted []*fitting.Scorer
	began := time.Now()
	for len(configs) > 0 {
		var err error
		fitted, err = fitting.FitGrid(ctx, f.method, r, configs)
		var diverged *train.DivergedError
		if err == nil {
			break
		}
		if !errors.As(err, &diverged) || diverged.Model >= len(configs) {
			return nil, err
		}
		for c := range f.coverages {
			records = append(records, record{Case: f.keys[c][index[diverged.Model]], Failed: err.Error()})
		}
		configs = slices.Delete(configs, diverged.Model, diverged.Model+1)
		index = slices.Delete(index, diverged.Model, diverged.Model+1)
	}
	seconds := time.Since(began).Seconds() / float64(max(len(configs), 1))
	for g := range configs {
		crossing := 0.
		if c, ok := fitted[g].Fitted().(*mlp.Conditional); ok && !f.method.Needs.Ends {
			_, crossing = experiment.Crossing(experiment.Unsorted(c, test.X, c.Grid).Data, len(c.Grid))
		}
		for c, coverage := range f.coverages {
			m, err := measure(fitted[g], coverage, choosing, calibrating, test)
			if err != nil {
				return nil, err
			}
			m.Case, m.Fit, m.Seconds, m.Crossing = f.keys[c][index[g]], len(parts.Fit), seconds, crossing
			records = append(records, m)
		}
	}
	return records, nil
}

// measure measures the intervals of r on three groups of rows: for choosing, for
// calibration and for testing.
func measure(r ood.QuantileRegressor, coverage float64, choosingRows, calibrationRows, testRows uci.Data) (record, error) {
	levels, spread := intervals.LevelsOf(coverage), testRows.Spread
	alpha := 2 * levels[0]
	choosing, calibrating, test := intervals.Predicted(r, choosingRows, levels), intervals.Predicted(r, calibrationRows, levels), intervals.Predicted(r, testRows, levels)
	validation := choosing.With(calibrating)
	m := record{Validation: validation.Measure(alpha, spread), Test: test.Measure(alpha, spread), NCal: len(calibrating.Y)}
	var errs [3]error
	m.Calibrated, errs[0] = test.Conformalized(validation, alpha, spread)
	m.Honest, errs[1] = test.Conformalized(calibrating, alpha, spread)
	m.Choosing, errs[2] = choosing.Conformalized(choosing, alpha, spread)
	return m, errors.Join(errs[:]...)
}

// settingsOf returns the grid of a method, or a small part of it. For networks, it adds
// averaging and combines each configuration with every dropout rate. A configuration that
// has a dropout rate keeps it.
func settingsOf(m ood.Method, small bool, dropout []float64, averaging float64) []ood.Params {
	var grid []ood.Params
	for i, config := range fitting.Grid(m) {
		if small && !inSmallGrid(m, i) {
			continue
		}
		if !m.Needs.Trainer {
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

func inSmallGrid(m ood.Method, i int) bool {
	config := fitting.Grid(m)[i]
	if !m.Needs.Trainer {
		// Keep both numbers of trees. 1,000 trees cost little more than the first 100, and
		// 100 are too few for the learning rates of the grid.
		leaf, leaves := config["min_samples_leaf"]
		return config["min_samples_split"] == 9. && (!leaves || leaf == 9. && config["learning_rate"].(float64) >= 1e-3)
	}
	rate, decay, drop := config["learning_rate"].(float64), config["weight_decay"].(float64), config["dropout"].(float64)
	return rate >= 1e-3 && (decay == 0 || decay == 1e-2) && (drop == 0 || drop == .1 || drop == .5)
}
