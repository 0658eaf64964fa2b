// Package quantile interpolates quantiles that are known on a grid of levels.
package quantile

import "sort"

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
