package attach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/ood"
)

// crossFolds is the number of folds of the calibration rows for IntervalFit "cross". More folds
// would need more time and larger files, and each model would learn from hardly more rows.
const crossFolds = 10

// checkCross returns an error for options that IntervalFit "cross" does not support.
func (in FitOptions) checkCross() error {
	switch {
	case in.IntervalFit != "cross":
		return nil
	case in.IntervalScore == conformal.RCP || in.IntervalScore == conformal.Ridge:
		return fmt.Errorf("cross-fitted intervals cannot have the score %s; choose another FitOptions.IntervalScore or FitOptions.IntervalFit", in.IntervalScore)
	case in.Groups != nil || in.CalGroups != nil:
		return errors.New("cross-fitted intervals cannot be calibrated by group; leave the groups out, or choose another FitOptions.IntervalFit")
	case in.TargetRows.Rows > 0:
		return errors.New("cross-fitted intervals cannot have weights; leave FitOptions.TargetRows out, or choose another FitOptions.IntervalFit")
	}
	return nil
}

// crossFit fits one interval model for each fold of the calibration rows, on the rows of the
// other folds, and one on all calibration rows, which it returns. Copies of a row are in one
// fold, so that no model is calibrated with a row that it learned.
func (b *Bundle) crossFit(ctx context.Context, in FitOptions, d rowSplit) (*fitting.Scorer, error) {
	distinct := distinctRows(d.cal, d.calTargets, b.Calibration.Hashed)
	if len(distinct) < 2 {
		return nil, errors.New("all calibration rows are copies of one row, and cross-fitting needs two that differ; give more rows, or choose another FitOptions.IntervalFit")
	}
	if in.IntervalScore != conformal.CQR {
		b.Calibration.IntervalScore = in.IntervalScore
	}
	folds := rows.Folds(len(distinct), crossFolds, in.Seed)
	done := func(k int) float64 { return float64(k) / float64(len(folds)+1) }
	b.Calibration.Folds, b.foldModels = make([]int, d.cal.Len()), nil
	for k, fold := range folds {
		for _, i := range expand(distinct, fold) {
			b.Calibration.Folds[i] = k
		}
		others := expand(distinct, otherFolds(folds, k))
		model, err := in.fitOn(ctx, d.cal.Select(others), rows.Select(d.calTargets, others), true, in.report(done(k), done(k+1)))
		if err != nil {
			return nil, err
		}
		b.foldModels = append(b.foldModels, model)
	}
	return in.fitOn(ctx, d.cal, d.calTargets, in.MayRetain || d.heldOut == rows.SplitOff, in.report(done(len(folds)), 1))
}

// calibrationQuantiles returns the quantiles of the calibration rows. With folds, those of a row
// come from the model that did not learn from it.
func (b *Bundle) calibrationQuantiles(cal ood.Batch) (ood.Quantiles, error) {
	all, err := b.predictQuantiles(cal, quantile.Levels())
	if err != nil {
		return all, err
	}
	for k, model := range b.foldModels {
		var fold []int
		for i, f := range b.Calibration.Folds {
			if f == k {
				fold = append(fold, i)
			}
		}
		q, err := b.Base.quantilesOf(model, cal.Select(fold), quantile.Levels())
		if err != nil {
			return all, err
		}
		copyQuantiles(all, fold, q)
	}
	return all, nil
}

// copyQuantiles copies the quantiles of some rows into those of all rows. Row i goes to
// positions[i].
func copyQuantiles(all ood.Quantiles, positions []int, q ood.Quantiles) {
	for i, row := range positions {
		for t := range q.Targets {
			copy(all.Row(row, t), q.Row(i, t))
		}
	}
}

// foldQuantiles returns the quantiles of rows by the model of each fold, whose features are
// already scaled. It returns nil without folds.
func (p *Predictor) foldQuantiles(r ood.Batch) (all []ood.Quantiles, err error) {
	for _, model := range p.bundle.foldModels {
		q, err := p.bundle.Base.quantilesOf(model, r, p.intervalLevels)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}

// bandsOf returns the quantiles of row i by the model of each fold, for each target. It sets
// known to false for targets about which one of the models has no information.
func (c *groupCalibration) bandsOf(folds []ood.Quantiles, i int, known []bool) [][][]float32 {
	bands := make([][][]float32, len(folds))
	for k, q := range folds {
		for t := range q.Targets {
			bands[k] = append(bands[k], q.Row(i, t))
			known[t] = known[t] && withinReach(q.Row(i, t), c.reach[t])
		}
	}
	return bands
}

// LeastCoverage returns the coverage that is guaranteed for intervals at a level. It is the
// level itself, unless the intervals are cross-fitted (see Folds). The intervals then cover
// about the level, but less is proven: see calibrate.CrossIntervals.
func (c Calibration) LeastCoverage(level float64) float64 {
	if c.Folds == nil {
		return level
	}
	n, folds := float64(len(c.Folds)), float64(1+slices.Max(c.Folds))
	// A row misses if the mean of the p-values of all folds is small. Twice this mean is a
	// p-value (Vovk & Wang 2020).
	least := 1 - 2*((1-level)*(n+1)+folds-1)/(n+folds)
	sizes := make([]int, int(folds))
	for _, k := range c.Folds {
		sizes[k]++
	}
	if slices.Min(sizes) == slices.Max(sizes) {
		least = max(least, 1-2*(1-level)-(1-folds/n)/(folds+1))
	}
	return max(0, least)
}

// checkFolds returns an error unless each calibration row is in a fold that has a model, and each
// fold has rows. Without folds, there must be no models.
func (b *Bundle) checkFolds() error {
	c := b.Calibration
	if c.Folds == nil && b.foldModels == nil {
		return nil
	}
	found := map[int]bool{}
	for _, k := range c.Folds {
		found[k] = k >= 0 && k < len(b.foldModels)
	}
	switch {
	case len(c.Folds) != c.NCal || c.NInterval > 0 || c.Groups != nil || c.Weights != nil:
		return fmt.Errorf("there are folds of %d of %d calibration rows, or folds with groups or weights", len(c.Folds), c.NCal)
	case len(b.foldModels) < 2 || len(found) != len(b.foldModels) || slices.Contains(slices.Collect(maps.Values(found)), false):
		return fmt.Errorf("the calibration rows are in %d folds, but there are %d models of folds", len(found), len(b.foldModels))
	}
	return nil
}

// foldStates returns the parameters of the model of each fold, and the arrays of all of them,
// whose names begin with the number of the fold.
func (b *Bundle) foldStates() (params []map[string]any, arrays map[string]rows.Array) {
	for k, model := range b.foldModels {
		s := model.State()
		params = append(params, s.Params)
		for name, array := range s.Arrays {
			if arrays == nil {
				arrays = map[string]rows.Array{}
			}
			arrays[foldPrefix(k)+name] = array
		}
	}
	return params, arrays
}

func foldPrefix(k int) string { return strconv.Itoa(k) + "." }

// restoreFolds restores the models of the folds.
func (b *Bundle) restoreFolds(e *methodEntry, params []map[string]any, arrays map[string]rows.Array, custom []ood.Method) error {
	if len(params) > 0 && e == nil {
		return fmt.Errorf("%w: there are folds without an interval model", ErrDamaged)
	}
	for k, state := range params {
		own := map[string]rows.Array{}
		for name, array := range arrays {
			if short, ok := strings.CutPrefix(name, foldPrefix(k)); ok {
				own[short] = array
			}
		}
		fold := methodEntry{Method: e.Method, Params: e.Params, State: state}
		f, err := fold.restore(fmt.Sprintf("fold %d of quantile method", k), true, own, custom)
		if err != nil {
			return err
		}
		b.foldModels = append(b.foldModels, f.scorer)
	}
	return nil
}

// checkCross returns an error for options that cross-fitted intervals do not support.
func (c Calibration) checkCross(o PredictOptions) error {
	var option string
	switch {
	case c.Folds == nil:
		return nil
	case o.Smoothed && o.Sets == "":
		option = "Smoothed"
	case o.Samples != 0:
		option = "Samples"
	case o.Region == conformal.Ellipsoid:
		option = "the region ellipsoid"
	case o.IntervalScore == conformal.RCP || o.IntervalScore == conformal.Ridge:
		option = "the interval score " + o.IntervalScore
	default:
		return nil
	}
	return fmt.Errorf("%s cannot use cross-fitted intervals; leave it out, or fit with another FitOptions.IntervalFit", option)
}
