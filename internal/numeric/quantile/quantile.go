// Package quantile interpolates quantiles that are given on a grid of levels.
package quantile

import (
	"fmt"
	"sort"
)

// Check returns an error unless levels increase within (0,1) and there are as many quantiles
// as rows times levels.
func Check(levels []float64, quantiles, rows int) error {
	if len(levels) == 0 || quantiles != rows*len(levels) {
		return fmt.Errorf("quantile calibration has %d quantiles for %d rows at %d levels", quantiles, rows, len(levels))
	}
	for i, l := range levels {
		if !(l > 0 && l < 1) || i > 0 && l <= levels[i-1] {
			return fmt.Errorf("quantile calibration has level %v at place %d: levels must increase in (0,1)", l, i)
		}
	}
	return nil
}

// Interpolate returns the quantile at level tau, given the quantiles q at increasing levels,
// both of the same length ≥ 1. It is linear between levels and constant beyond the first and
// the last. It does not decrease with tau if q does not decrease.
//
// Every reader of a grid uses this function. It rounds the result to float32, so that the
// quantiles of calibration and prediction agree bit by bit.
func Interpolate(levels []float64, q []float32, tau float64) float32 {
	if len(levels) != len(q) || len(q) == 0 {
		panic("quantile: levels and quantiles differ in length, or are empty")
	}
	i := sort.SearchFloat64s(levels, tau)
	switch {
	case i == len(levels):
		return q[i-1]
	case i == 0 || levels[i] == tau:
		return q[i]
	}
	w := (tau - levels[i-1]) / (levels[i] - levels[i-1])
	lo, hi := float64(q[i-1]), float64(q[i])
	return float32(min(lo+w*(hi-lo), hi))
}
