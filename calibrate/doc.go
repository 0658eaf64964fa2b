// Package calibrate turns raw scores, quantiles and logits into statements with a
// guarantee. Some statements are about single rows: p-values, thresholds at a false-alarm
// rate, prediction intervals (with one or two ends, by group, or for several targets at
// once), predictive distributions, prediction sets, probabilities that a prediction is
// right, and predictions accepted at a given error rate. Other statements are about many
// rows: discoveries at a false discovery rate (among all rows at once or in a stream),
// bounds on the number of outliers, and tests of a shift. A Monitor detects drift in a
// stream. An Adaptive keeps the coverage of a series near 1−α although the series changes.
//
// Adaptive and CrossIntervals have guarantees of their own. All others come from split
// conformal prediction. It needs calibration rows and new rows that are exchangeable, and a
// model and detectors that were not fitted on the calibration rows. A statement then holds
// with the stated probability,
// averaged over draws of the calibration rows and the new row. The guarantee is marginal: it
// is not conditional on the input. ByGroup, ByClass and ByCluster make it conditional on the
// group, the class or the cluster. The guarantee does not hold for rows that the model was
// trained on.
//
// If new rows have other inputs than the calibration rows, or other shares of the classes,
// weights of the calibration rows can restore the guarantee: see WeightedConformal,
// DensityRatio and LabelShift.
//
// Calibration scores tie if targets or quantiles take few values, or if the true class of
// many rows ranks first. Plain intervals and sets then cover more often than guaranteed.
// Smoothed ones cover exactly as often as guaranteed, because a random number for each row
// breaks the ties.
//
// The package stores scores of calibration rows instead of thresholds, so the level can be
// chosen after the fit. If the calibration set is too small for a level, bounds are
// infinite and sets contain all classes.
//
// Levels are given as α, the allowed error rate. An error is a false alarm for Conformal,
// and a miss for intervals and sets. If a level is not between 0 and 1, functions with an
// error result return an error and other functions panic. Threshold panics only if the
// level is NaN.
package calibrate

import "fmt"

// checkLevel returns an error unless 0 < v < 1. The error calls the value what.
func checkLevel(what string, v float64) error {
	if v > 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s %v is not between 0 and 1", what, v)
}
