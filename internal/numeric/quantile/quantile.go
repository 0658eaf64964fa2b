// Package quantile interpolates quantiles that are given on a grid of levels, and computes
// percentiles of numbers.
package quantile

import (
	"fmt"
	"sort"
)

// Check returns an error unless there are levels, they increase within (0,1), and the
// number of quantiles is the number of rows times the number of levels.
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

// Interpolate returns the quantile at level tau. q holds the quantiles at increasing levels,
// and both slices have the same length ≥ 1. The result is linear between levels and constant
// beyond the first and the last. If q does not decrease, the result does not decrease with
// tau.
//
// Calibration and prediction both use this function. It rounds the result to float32, so their
// quantiles are equal to the last bit.
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

// Weights returns the weight of each level's quantile in Interpolate: the quantile at tau is the
// sum of all quantiles, each times its weight.
func Weights(levels []float64, tau float64) []float64 {
	weights := make([]float64, len(levels))
	i := sort.SearchFloat64s(levels, tau)
	switch {
	case i == len(levels):
		weights[i-1] = 1
	case i == 0 || levels[i] == tau:
		weights[i] = 1
	default:
		weights[i] = (tau - levels[i-1]) / (levels[i] - levels[i-1])
		weights[i-1] = 1 - weights[i]
	}
	return weights
}
