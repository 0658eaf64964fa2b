package attach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	// memorisedRatio is the smallest ratio of the median absolute error on calibration rows to
	// that on fit rows at which a model counts as having memorised the fit rows, and
	// memorisedPValue the largest p-value of the Mann–Whitney test.
	memorisedRatio  = 1.2
	memorisedPValue = 0.001
	// maxErrorRatio limits Calibration.ErrorRatio, because the errors on the fit rows can be 0.
	maxErrorRatio = 1000
	// minTaughtRows is the smallest number of calibration rows that the interval model may learn
	// from, and minIntervalRows the smallest number that must remain in each group.
	minTaughtRows = 250
	// crossFits is the number of folds of the calibration rows on which the choice is made.
	crossFits       = 4
	minIntervalRows = 50
)

// fitIntervalModel fits the interval model, and returns it with the rows that calibrate it. It
// sets NInterval and ErrorRatio if these are not all calibration rows.
func (b *Bundle) fitIntervalModel(ctx context.Context, in FitOptions, d rowSplit) (*fitting.Scorer, rowSplit, error) {
	onFitRows := func(progress func(float64)) (*fitting.Scorer, error) {
		return in.fitOn(ctx, d.fit, d.fitTargets, in.MayRetain || d.heldOut == rows.SplitOff, progress)
	}
	report := func(from, to float64) func(float64) {
		return func(done float64) { in.Progress("quantiles", from+(to-from)*done) }
	}
	ratio, memorised := errorRatio(d)
	taught, kept, enough := d.divideCalibration(in)
	switch {
	case in.IntervalRows == "fit", in.IntervalRows == "" && !(memorised && enough && d.heldOut == rows.Given):
		fitted, err := onFitRows(report(0, 1))
		return fitted, d, err
	case in.IntervalRows != "" && in.IntervalRows != "calibration":
		return nil, d, fmt.Errorf("IntervalRows is %q; it must be fit, calibration or empty", in.IntervalRows)
	case taught.cal.Len() == 0 || kept.cal.Len() == 0:
		return nil, d, errors.New("one calibration row cannot both teach the interval model and calibrate it")
	}
	b.Calibration.NInterval, b.Calibration.ErrorRatio = kept.cal.Len(), ratio
	if in.IntervalRows == "" {
		fitted, err := onFitRows(report(0, 0.4))
		if err != nil {
			return nil, d, err
		}
		better, err := in.betterOnCalibration(ctx, fitted, taught, report(0.4, 0.8))
		if err != nil || !better {
			return fitted, kept, err
		}
		b.Calibration.TaughtByCalibration = true
		fitted, err = in.fitOn(ctx, taught.cal, taught.calTargets, true, report(0.8, 1))
		return fitted, kept, err
	}
	b.Calibration.TaughtByCalibration = true
	fitted, err := in.fitOn(ctx, taught.cal, taught.calTargets, true, report(0, 1))
	return fitted, kept, err
}

// divideCalibration divides the calibration rows at random into two halves: rows that may teach
// the interval model, and rows that calibrate it. It reports whether both are large enough.
func (d rowSplit) divideCalibration(in FitOptions) (taught, kept rowSplit, enough bool) {
	first, second := rows.Split(d.cal.Len(), 0.5, in.Seed)
	taught, kept = d.selectCalibration(first), d.selectCalibration(second)
	return taught, kept, len(first) >= minTaughtRows && kept.smallestGroup() >= max(minIntervalRows, hypothesis.LeastRows(1-in.Level))
}

// selectCalibration returns d with only some of the calibration rows.
func (d rowSplit) selectCalibration(idx []int) rowSplit {
	d.cal, d.calTargets = d.cal.Select(idx), rows.Select(d.calTargets, idx)
	if d.calGroups != nil {
		groups := make([]string, len(idx))
		for i, row := range idx {
			groups[i] = d.calGroups[row]
		}
		d.calGroups = groups
	}
	if d.calWeights != nil {
		weights := make([]float64, len(idx))
		for i, row := range idx {
			weights[i] = d.calWeights[row]
		}
		d.calWeights = weights
	}
	return d
}

// betterOnCalibration reports whether an interval model that learns from calibration rows has a
// smaller Winkler score than fitted, which learned from the fit rows. Both are conformalized and
// scored on the given calibration rows: fitted as it is, the other by cross-fitting.
func (in FitOptions) betterOnCalibration(ctx context.Context, fitted *fitting.Scorer, d rowSplit, progress func(float64)) (bool, error) {
	alpha := 1 - in.Level
	levels := []float64{alpha / 2, 1 - alpha/2} // as in fittedLevels
	n, targets := d.cal.Len(), d.calTargets.Cols
	scoreOf := func(q ood.Quantiles, idx []int, ends [][]float32) {
		for i, row := range idx {
			for t := range targets {
				copy(ends[row*targets+t], q.Row(i, t))
			}
		}
	}
	newEnds := func() [][]float32 {
		ends := make([][]float32, n*targets)
		for i := range ends {
			ends[i] = make([]float32, 2)
		}
		return ends
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	onFit, onCalibration := newEnds(), newEnds()
	q, err := in.Base.quantilesOf(fitted, d.cal, levels)
	if err != nil {
		return false, err
	}
	scoreOf(q, all, onFit)
	folds := rows.Folds(n, crossFits, in.Seed)
	for k, fold := range folds {
		others := slices.Concat(slices.Concat(folds[:k]...), slices.Concat(folds[k+1:]...))
		slices.Sort(others)
		part := func(done float64) { progress((float64(k) + done) / float64(len(folds))) }
		model, err := in.fitOn(ctx, d.cal.Select(others), rows.Select(d.calTargets, others), true, part)
		if err != nil {
			return false, err
		}
		if q, err = in.Base.quantilesOf(model, d.cal.Select(fold), levels); err != nil {
			return false, err
		}
		scoreOf(q, fold, onCalibration)
	}
	difference := 0. // sum of the logarithms of the ratios of Winkler scores
	for t := range targets {
		y := make([]float64, n)
		for i := range y {
			y[i] = float64(d.calTargets.Data[i*d.calTargets.Stride+t])
		}
		difference += math.Log(winkler(onCalibration, y, t, targets, in.Level)) - math.Log(winkler(onFit, y, t, targets, in.Level))
	}
	return difference < 0, nil
}

// winkler returns the mean Winkler score of the conformalized intervals of target t (Winkler
// 1972): the width, and for a target outside its interval also its distance times 2/(1 − level).
func winkler(ends [][]float32, y []float64, t, targets int, level float64) float64 {
	scores := make([]float64, len(y))
	for i, v := range y {
		e := ends[i*targets+t]
		scores[i] = max(float64(e[0])-v, v-float64(e[1]))
	}
	sorted := slices.Sorted(slices.Values(scores))
	margin := sorted[min(len(sorted)-1, int(math.Ceil(level*float64(len(sorted)+1)))-1)]
	sum := 0.
	for i, s := range scores {
		e := ends[i*targets+t]
		sum += max(0, float64(e[1])-float64(e[0])+2*margin) + 2/(1-level)*max(0, s-margin)
	}
	return max(sum/float64(len(y)), math.SmallestNonzeroFloat64)
}

// smallestGroup returns the number of calibration rows in the smallest group, or of all of them
// without groups.
func (d rowSplit) smallestGroup() int {
	if d.calGroups == nil {
		return d.cal.Len()
	}
	counts := map[string]int{}
	for _, g := range d.calGroups {
		counts[g]++
	}
	smallest := math.MaxInt
	for _, n := range counts {
		smallest = min(smallest, n)
	}
	return smallest
}

// errorRatio returns the median absolute error of the model on the calibration rows, divided by
// that on the fit rows, and whether the model has memorised the fit rows. With several targets,
// it returns the largest ratio. The ratio is 0 if the predictions are not known.
func errorRatio(d rowSplit) (ratio float64, memorised bool) {
	if d.fit.Logits.Cols == 0 || d.fit.Logits.Cols != d.fitTargets.Cols || d.cal.Logits.Cols != d.fitTargets.Cols {
		return 0, false
	}
	for t := range d.fitTargets.Cols {
		fit, cal := absoluteErrors(d.fit.Logits, d.fitTargets, t), absoluteErrors(d.cal.Logits, d.calTargets, t)
		r := min(maxErrorRatio, median(cal)/max(median(fit), math.SmallestNonzeroFloat64))
		ratio = max(ratio, r)
		memorised = memorised || r >= memorisedRatio && largerErrors(fit, cal) <= memorisedPValue
	}
	return ratio, memorised
}

// absoluteErrors returns the absolute errors of target t.
func absoluteErrors(predictions, targets blas32.General, t int) []float64 {
	list := make([]float64, targets.Rows)
	for i := range list {
		list[i] = math.Abs(float64(targets.Data[i*targets.Stride+t]) - float64(predictions.Data[i*predictions.Stride+t]))
	}
	return list
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// largerErrors returns the p-value of the one-sided Mann–Whitney test that errors on the
// calibration rows are larger, with the normal approximation.
func largerErrors(fit, cal []float64) float64 {
	auroc, err := measure.AUROC(fit, cal)
	if err != nil {
		return 1
	}
	n, m := float64(len(fit)), float64(len(cal))
	return 0.5 * math.Erfc((auroc-0.5)/math.Sqrt((n+m+1)/(12*n*m))/math.Sqrt2)
}
