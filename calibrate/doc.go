// Package calibrate turns raw scores, quantiles and logits into statements with a guarantee.
// For single rows these are p-values, thresholds at a false-alarm rate, prediction intervals
// (with one or two ends, by group, or for several targets at once), predictive distributions,
// prediction sets, and predictions accepted at a given error rate. For many rows they are
// discoveries at a false discovery rate, all at once or one after another, bounds on the
// number of outliers, tests of a shift, and a Monitor that detects drift in a stream.
//
// Every guarantee here is that of split conformal prediction. If the calibration rows and a
// new row are exchangeable, and neither the model nor the heads were fitted on the calibration
// rows, the statement holds with the stated probability, averaged over draws of both. The
// guarantee is marginal, not conditional on the input; with ByGroup it is conditional on the
// group. It does not hold for rows that the model was trained on.
//
// Calibration scores tie if targets or quantiles take few values, or if many classes rank
// first. Plain intervals and sets then cover more often than guaranteed. Smoothed ones cover
// exactly as often: a random number, drawn for each row, breaks the ties.
//
// The package stores scores of calibration rows, never a threshold, so the level can be chosen
// after the fit. If the calibration set is too small for a level, bounds are infinite and sets
// contain all classes.
//
// Levels are given as α, the allowed error rate: false alarms for Conformal, misses for
// intervals and sets. If a level is not between 0 and 1, a function that returns an error
// returns one, and other functions panic. Threshold panics for NaN only.
package calibrate

import "fmt"

// checkLevel returns an error unless the probability is between 0 and 1, both excluded.
func checkLevel(what string, v float64) error {
	if v > 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s %v is not between 0 and 1", what, v)
}
