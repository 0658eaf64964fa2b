package quantile

import (
	"math"
	"slices"
)

// Reach returns the magnitude above which predicted quantiles carry no information about a
// target, given the quantiles and targets y of n calibration rows; grid is n×len(levels). It
// is 1024 times the largest magnitude in these, or less if float32 numbers of that magnitude
// are farther apart than an eighth of the typical difference between targets and medians,
// because quantiles would then round to the same number. It is at least twice the largest
// magnitude. Up to half of the rows may be arbitrarily wrong. Without rows it is the largest
// float32 number.
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

// Unknown returns the quantile at a level of a target about which nothing is known. Its median
// is NaN, because no number is better than another.
func Unknown(level float64) float64 {
	switch {
	case level < .5:
		return math.Inf(-1)
	case level > .5:
		return math.Inf(1)
	}
	return math.NaN()
}
