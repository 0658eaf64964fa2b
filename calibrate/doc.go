// Package calibrate turns raw scores, quantiles and logits into statements
// with a guarantee: p-values, thresholds at a false-alarm rate, intervals,
// one-sided, for groups of rows or for several targets at once too, predictive
// distributions, prediction sets, and predictions accepted at a share of errors; and,
// of many rows, discoveries at a false discovery rate, of all at once or one after
// another, bounds on how many rows are outliers, tests of whether all have shifted, and a
// Monitor of whether a stream drifts.
//
// Every guarantee here is the one of split conformal prediction: if the
// calibration rows and a new row are exchangeable, and neither the network
// nor the heads were fitted on the calibration rows, then the statement holds
// with the stated probability, averaged over draws of both. It is marginal,
// not conditional on the input (that of ByGroup is conditional on the group), and it
// is void for rows that the network was trained on.
//
// Where calibration scores tie, as they do where targets or quantiles take few
// values, or where many classes rank first, plain intervals and sets cover more than
// is promised. Smoothed ones cover exactly as often: a random number, drawn for each
// row, decides what belongs to them.
//
// What is stored is scores of calibration rows, never a threshold, so that the
// level can be chosen after the fit. Where the calibration set is too small for
// the level asked, bounds are +Inf and sets hold all classes, instead of made up.
//
// Levels are given as α, the share of errors allowed: false alarms for
// Conformal, misses for intervals and sets. One that does not lie between 0 and 1 is an
// error of functions that return one, and makes others panic; Threshold panics on NaN
// alone.
package calibrate

import "fmt"

// checkLevel refuses a probability, as a level is, of 0 or 1 or outside.
func checkLevel(what string, v float64) error {
	if v > 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s %v is not between 0 and 1", what, v)
}
