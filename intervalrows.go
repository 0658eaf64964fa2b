package attach

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
)

const (
	// memorisedRatio is the smallest ratio of the median absolute error on calibration rows to
	// that on fit rows at which a model counts as having memorised the fit rows.
	memorisedRatio = 1.1
	// memorisedPValue is the largest p-value of the Mann–Whitney test of these errors, for all
	// targets together.
	memorisedPValue = 0.001
	// maxErrorRatio limits Calibration.ErrorRatio, because the errors on the fit rows can be 0.
	maxErrorRatio = 1000
	// minTaughtRows is the smallest number of calibration rows that the interval model may learn
	// from by default, and minIntervalRows the smallest number that must remain in each group.
	minTaughtRows   = 250
	minIntervalRows = 50
	// crossFits is the number of folds of the calibration rows on which the choice is made.
	crossFits = 4
)

// fitIntervalModel fits the interval model, and returns it with the rows that calibrate it. If
// these are not all calibration rows, it sets NInterval and what belongs to it.
func (b *Bundle) fitIntervalModel(ctx context.Context, in FitOptions, d rowSplit) (*fitting.Scorer, rowSplit, error) {
	c := &b.Calibration
	onFitRows := func(to float64) (*fitting.Scorer, error) {
		return in.fitOn(ctx, d.fit, d.fitTargets, in.MayRetain || d.heldOut == rows.SplitOff, in.report(0, to))
	}
	if in.IntervalFit == "fit" || in.IntervalFit == "" && d.heldOut != rows.Given {
		fitted, err := onFitRows(1)
		return fitted, d, err
	}
	first, second := d.halves(c.Hashed, in.Seed)
	from := 0.
	if in.IntervalFit == "" {
		_, least := d.smallestGroup(second)
		taught := d.selectCalibration(first)
		ratio, memorised := errorRatio(taught)
		if !memorised || len(first) < minTaughtRows || least < max(minIntervalRows, hypothesis.LeastRows(1-in.Level)) {
			fitted, err := onFitRows(1)
			return fitted, d, err
		}
		c.NInterval, c.ErrorRatio = len(second), ratio
		from = 0.8
		fitted, err := onFitRows(0.4)
		if err != nil {
			return nil, d, err
		}
		better, err := in.betterOnCalibration(ctx, fitted, taught, c.Hashed, in.report(0.4, from))
		if err != nil || !better {
			return fitted, d.selectCalibration(second), err
		}
	} else if group, least := d.smallestGroup(second); len(first) == 0 || least == 0 {
		return nil, d, fmt.Errorf("the calibration rows are too few to teach the interval model and to calibrate it%s", group)
	}
	c.NInterval, c.TaughtByCalibration = len(second), true
	taught := d.selectCalibration(first)
	fitted, err := in.fitOn(ctx, taught.cal, taught.calTargets, true, in.report(from, 1))
	return fitted, d.selectCalibration(second), err
}

// report returns a function that reports the progress of a part of the fit of the interval
// model.
func (in FitOptions) report(from, to float64) func(done float64) {
	return func(done float64) { in.Progress("quantiles", from+(to-from)*done) }
}

// distinctRows returns the indices of the calibration rows, with copies of a row in one list.
// Copies must stay together: if the interval model learned one, the other would not be new.
func (d rowSplit) distinctRows(hashed string) (distinct [][]int) {
	hashes := rowhash.Of(d.cal, hashed)
	addTargets(hashes, nil, d.calTargets)
	known := map[rowhash.Hash]int{}
	for i, h := range hashes {
		at, found := known[h]
		if !found {
			at = len(distinct)
			known[h], distinct = at, append(distinct, nil)
		}
		distinct[at] = append(distinct[at], i)
	}
	return distinct
}

// expand returns the rows of some lists, in increasing order.
func expand(lists [][]int, selected []int) (all []int) {
	for _, i := range selected {
		all = append(all, lists[i]...)
	}
	slices.Sort(all)
	return all
}

// halves divides the calibration rows at random into rows that may teach the interval model, and
// rows that calibrate it.
func (d rowSplit) halves(hashed string, seed uint64) (first, second []int) {
	distinct := d.distinctRows(hashed)
	taught, kept := rows.Split(len(distinct), 0.5, seed)
	return expand(distinct, taught), expand(distinct, kept)
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
func (in FitOptions) betterOnCalibration(ctx context.Context, fitted *fitting.Scorer, d rowSplit, hashed string, progress func(float64)) (bool, error) {
	alpha := 1 - in.Level
	levels := []float64{alpha / 2, 1 - alpha/2} // as in fittedLevels
	n, targets := d.cal.Len(), d.calTargets.Cols
	// The ends of the intervals of row i and target t are at 2·(i·targets + t).
	onFit, onCalibration := make([]float32, 2*n*targets), make([]float32, 2*n*targets)
	predict := func(model *fitting.Scorer, idx []int, ends []float32) error {
		q, err := in.Base.quantilesOf(model, d.cal.Select(idx), levels)
		for i := 0; i < len(idx) && err == nil; i++ {
			for t := range targets {
				copy(ends[2*(idx[i]*targets+t):], q.Row(i, t))
			}
		}
		return err
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	if err := predict(fitted, all, onFit); err != nil {
		return false, err
	}
	distinct := d.distinctRows(hashed)
	folds := rows.Folds(len(distinct), crossFits, in.Seed)
	for k, fold := range folds {
		others := expand(distinct, slices.Concat(slices.Concat(folds[:k]...), slices.Concat(folds[k+1:]...)))
		part := func(done float64) { progress((float64(k) + done) / float64(len(folds))) }
		model, err := in.fitOn(ctx, d.cal.Select(others), rows.Select(d.calTargets, others), true, part)
		if err == nil {
			err = predict(model, expand(distinct, fold), onCalibration)
		}
		if err != nil {
			return false, err
		}
	}
	difference := 0. // sum of the logarithms of the ratios of Winkler scores
	for t := range targets {
		difference += math.Log(winkler(onCalibration, d.calTargets, t, in.Level)) - math.Log(winkler(onFit, d.calTargets, t, in.Level))
	}
	return difference < 0, nil
}

// winkler returns the mean Winkler score of the conformalized intervals of target t (Winkler
// 1972): the width, and for a target outside its interval also its distance times 2/(1 − level).
func winkler(ends []float32, targets blas32.General, t int, level float64) float64 {
	n := targets.Rows
	scores, widths := make([]float64, n), make([]float64, n)
	for i := range n {
		y, at := float64(targets.Data[i*targets.Stride+t]), 2*(i*targets.Cols+t)
		low, high := float64(ends[at]), float64(ends[at+1])
		scores[i], widths[i] = max(low-y, y-high), high-low
	}
	sorted := slices.Sorted(slices.Values(scores))
	margin := sorted[min(n-1, int(math.Ceil(level*float64(n+1)))-1)]
	sum := 0.
	for i, s := range scores {
		sum += max(0, widths[i]+2*margin) + 2/(1-level)*max(0, s-margin)
	}
	return max(sum/float64(n), math.SmallestNonzeroFloat64)
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
// that on the fit rows, and whether the model has memorised the fit rows. With several targets,
// it returns the largest ratio of those that show it. The ratio is 0 if none does, or if the
// predictions are not known.
func errorRatio(d rowSplit) (ratio float64, memorised bool) {
	targets := d.fitTargets.Cols
	if targets == 0 || d.fit.Logits.Cols != targets || d.cal.Logits.Cols != targets {
		return 0, false
	}
	for t := range targets {
		fit, cal := absoluteErrors(d.fit.Logits, d.fitTargets, t), absoluteErrors(d.cal.Logits, d.calTargets, t)
		r := min(maxErrorRatio, median(cal)/max(median(fit), math.SmallestNonzeroFloat64))
		if r >= memorisedRatio && largerErrors(fit, cal) <= memorisedPValue/float64(targets) {
			ratio, memorised = max(ratio, r), true
		}
	}
	return ratio, memorised
}

// absoluteErrors returns the absolute errors of target t in increasing order.
func absoluteErrors(predictions, targets blas32.General, t int) []float64 {
	list := make([]float64, targets.Rows)
	for i := range list {
		list[i] = math.Abs(float64(targets.Data[i*targets.Stride+t]) - float64(predictions.Data[i*predictions.Stride+t]))
	}
	slices.Sort(list)
	return list
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

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
