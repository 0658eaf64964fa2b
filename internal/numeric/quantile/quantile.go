// Package quantile interpolates quantiles that are known on a grid of levels.
package quantile

import (
	"fmt"
	"sort"
)

// Check refuses levels that do not increase in (0,1), and other than so many rows of
// quantiles at these.
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

// Interpolate returns the quantile at level tau given the quantiles q at
// increasing levels, both of one length ≥ 1. Between two levels it is linear;
// below the first and above the last it is constant. It does not decrease
// with tau if q does not with its levels.
//
// Everything that reads a grid uses this one function, and its result is
// rounded to float32, so that a quantile seen in calibration and one seen in
// prediction agree bit by bit.
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
