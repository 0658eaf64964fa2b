package main

import (
	"math"

	"github.com/attach-uncertainty/attach/calibrate"
)

// coverageError is the standard deviation of the share of nTest rows that
// intervals cover after calibration on nCal rows, without ties. All orders of
// the rows being alike, the number covered is beta-binomial with the
// parameters k and nCal+1−k, where k is the rank of the score that calibrates:
// the Beta is the coverage of this calibration set, the binomial the draw of
// test rows.
//
// That holds given the rows of the data set, the order alone being random. So
// the mean over independent splits of one set, which share its rows, has this
// error over √splits. Smoothed intervals, which break each tie by a draw of its
// own, have at most this error.
//
// Reference: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors, proposition 2a.
func coverageError(nCal, nTest int, alpha float64) float64 {
	p := calibrate.ExpectedCoverage(nCal, alpha)
	n, m := float64(nCal), float64(nTest)
	return math.Sqrt(p * (1 - p) * (n + 1 + m) / (m * (n + 2)))
}
