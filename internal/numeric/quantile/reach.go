package quantile

import (
	"math"
	"slices"
)

// Reach returns the magnitude above which predicted quantiles carry no information about a
// target. It computes the magnitude from the quantiles, n×len(levels), and the targets y of n
// calibration rows. Up to half of the rows may have arbitrarily wrong quantiles. Without rows,
// the result is the largest float32 number.
//
// The result is 1024 times the largest magnitude of targets and typical quantiles. If float32
// numbers of this size are too far apart, quantiles would round to the same number, so the
// result is smaller. The limit of the distance is an eighth of the typical difference between
// targets and predicted medians. The result is at least twice the largest magnitude.
func Reach(levels []float64, grid, y []float32) float64 {
	n, l := len(y), len(levels)
	if n == 0 {
		return math.MaxFloat32
	}
	var largest float64
	magnitudes, errors := make([]float64, n), make([]float64, n)
	for i, v := range y {
		row := grid[i*l : (i+1)*l]
		largest = max(largest, math.Abs(float64(v)))
		magnitudes[i] = max(math.Abs(float64(row[0])), math.Abs(float64(row[l-1])))
		errors[i] = math.Abs(float64(v) - float64(Interpolate(levels, row, .5)))
	}
	slices.Sort(magnitudes)
	slices.Sort(errors)
	largest = max(largest, magnitudes[n/2])
	return min(max(2*largest, min(1<<10*largest, 1<<20*errors[n/2])), math.MaxFloat32)
}

// Unknown returns the quantile of a target about which there is no information. Below the
// median it is −Inf, and above the median it is +Inf. The median is NaN.
func Unknown(level float64) float64 {
	switch {
	case level < .5:
		return math.Inf(-1)
	case level > .5:
		return math.Inf(1)
	}
	return math.NaN()
}
