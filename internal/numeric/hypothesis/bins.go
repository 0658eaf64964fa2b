package hypothesis

import "math"

// Bins is the number of bins, all of one width, in a histogram of numbers from 0 to 1. The
// first bin contains both of its ends, the others only the upper one.
const Bins = 20

// Bin returns the bin of v among n bins.
func Bin(v float64, n int) int {
	return min(max(int(math.Ceil(v*float64(n)*(1-1e-12)))-1, 0), n-1)
}

// Counts returns how many elements of x fall in each of Bins.
func Counts(x []float64) []int {
	counts := make([]int, Bins)
	for _, v := range x {
		counts[Bin(v, Bins)]++
	}
	return counts
}

// PValues returns how many p-values of the given number of rows are expected in each of Bins.
// A row that is exchangeable with n calibration rows has each possible p-value with equal
// probability.
func PValues(rows, n int) []float64 {
	expected := make([]float64, Bins)
	for k := range n + 1 {
		expected[Bin(float64(k+1)/float64(n+1), Bins)] += float64(rows) / float64(n+1)
	}
	return expected
}
