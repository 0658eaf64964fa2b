package main

import (
	"math"
	"sort"

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
// error over √splits.
//
// Reference: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors, proposition 2a.
func coverageError(nCal, nTest int, alpha float64) float64 {
	p := calibrate.ExpectedCoverage(nCal, alpha)
	n, m := float64(nCal), float64(nTest)
	return math.Sqrt(p * (1 - p) * (n + 1 + m) / (m * (n + 2)))
}

// brokenTies is the share of test scores that are covered when ties among
// scores are broken at random, in expectation; with ties, closed intervals
// cover more. tied is the share of test scores at the threshold. cal is
// increasing.
func brokenTies(cal, test []float64, alpha float64) (covered, tied float64) {
	n := len(cal)
	// A rank beyond the last covers all.
	k := int(math.Round(calibrate.ExpectedCoverage(n, alpha) * float64(n+1)))
	if k > n {
		return 1, 0
	}
	at := cal[k-1]
	below := sort.SearchFloat64s(cal, at)
	equal := sort.Search(n-below, func(i int) bool { return cal[below+i] > at })
	share := float64(k-below) / float64(equal+1)
	for _, s := range test {
		switch {
		case s < at:
			covered++
		case s == at:
			covered += share
			tied++
		}
	}
	m := float64(len(test))
	return covered / m, tied / m
}
