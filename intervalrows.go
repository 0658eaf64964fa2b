package attach

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// fitIntervalModel chooses and fits the interval model. It returns the rows that calibrate it,
// and sets the method and the score in the options. If calibration rows teach the interval
// model, only the others calibrate it, and Calibration.NInterval is their number.
func (b *Bundle) fitIntervalModel(ctx context.Context, in *FitOptions, d rowSplit) (*fitting.Scorer, rowSplit, error) {
	c := &b.Calibration
	if in.IntervalFit == "cross" {
		fitted, err := b.crossFit(ctx, *in, d)
		return fitted, d, err
	}
	mayRetain := in.MayRetain || d.heldOut == rows.SplitOff
	var l learningRows
	if in.IntervalFit == "calibration" {
		taught, kept := d.halves(c.Hashed, in.Seed)
		if group, least := d.smallestGroup(kept); len(taught) == 0 || least == 0 {
			return nil, d, fmt.Errorf("the calibration rows are too few to teach the interval model and to calibrate it%s", group)
		}
		c.NInterval, c.TaughtByCalibration = len(kept), true
		first := d.selectCalibration(taught)
		l = learningRows{first.cal, rows.Select(d.unscaledCal, taught), first.calTargets, ownErrors}
		d, mayRetain = d.selectCalibration(kept), true
	} else {
		var err error
		if l, err = in.learningRows(ctx, d, b.scaling, c.Hashed); err != nil {
			return nil, d, err
		}
		mayRetain = mayRetain || l.errors != ownErrors
	}
	if c.IntervalErrors = l.errors; l.errors == surrogateErrors && in.IntervalFit == "" {
		c.ErrorRatio = errorRatio(d)
	}
	list, err := in.chooseIntervals(ctx, l, c.Hashed, in.report(0.4, 0.8))
	if err != nil {
		return nil, d, err
	}
	best := IntervalCandidate{method: in.IntervalModel, Params: in.IntervalParams, Score: in.IntervalScore}
	if len(list) > 0 {
		best, c.IntervalChoice = list[0], list
		best.Score = cmp.Or(in.IntervalScore, best.Score)
	}
	if best.Direct { // it learns from no errors
		c.IntervalErrors, c.ErrorRatio = ownErrors, 0
	}
	if *in, err = in.with(best); err != nil {
		return nil, d, err
	}
	b.Base.Residual = in.Base.Residual
	if in.IntervalScore != conformal.CQR {
		c.IntervalScore = in.IntervalScore
	}
	fitted, err := in.fitOn(ctx, l.rowsFor(best), l.targets, mayRetain, in.report(0.8, 1))
	return fitted, d, err
}

// report returns a function that reports the progress of a part of the fit of the interval
// model.
func (in FitOptions) report(from, to float64) func(done float64) {
	return func(done float64) { in.Progress("quantiles", from+(to-from)*done) }
}

// halves divides the calibration rows at random into rows that may teach the interval model, and
// rows that calibrate it.
func (d rowSplit) halves(hashed string, seed uint64) (first, second []int) {
	distinct := distinctRows(d.cal, d.calTargets, hashed)
	taught, kept := rows.Split(len(distinct), 0.5, seed)
	return expand(distinct, taught), expand(distinct, kept)
}

// selectCalibration returns d with only some of the calibration rows.
func (d rowSplit) selectCalibration(idx []int) rowSplit {
	d.cal, d.calTargets = d.cal.Select(idx), rows.Select(d.calTargets, idx)
	d.calGroups, d.calWeights = rows.Pick(d.calGroups, idx), rows.Pick(d.calWeights, idx)
	return d
}

// smallestGroup returns the number of the given calibration rows in the smallest group, or of
// all of them without groups. The text names the group.
func (d rowSplit) smallestGroup(idx []int) (text string, least int) {
	if d.calGroups == nil {
		return "", len(idx)
	}
	counts := map[string]int{}
	for _, g := range d.calGroups {
		counts[g] = 0
	}
	for _, i := range idx {
		counts[d.calGroups[i]]++
	}
	least = math.MaxInt
	for _, g := range slices.Sorted(maps.Keys(counts)) {
		if counts[g] < least {
			text, least = fmt.Sprintf(" in group %.100q", g), counts[g]
		}
	}
	return text, least
}

// errorRatio returns the median absolute error of the model on the calibration rows, divided by
// that on the fit rows; with several targets, the largest ratio.
func errorRatio(d rowSplit) (ratio float64) {
	for t := range d.fitTargets.Cols {
		fit, cal := absoluteErrors(d.fit.Logits, d.fitTargets, t), absoluteErrors(d.cal.Logits, d.calTargets, t)
		ratio = max(ratio, min(maxErrorRatio, quantileOf(cal, 0.5)/quantileOf(fit, 0.5)))
	}
	return ratio
}

// maxErrorRatio limits Calibration.ErrorRatio, because the errors on the fit rows can be 0.
const maxErrorRatio = 1000
