package hypothesis

import "math"

// Bins is the number of bins in a histogram of numbers from 0 to 1. All bins have the same
// width. A bin contains its upper end but not its lower end, except that the first bin
// contains 0.
const Bins = 20

// Bin returns the index of the bin that contains v, among n bins.
func Bin(v float64, n int) int {
	return min(max(int(math.Ceil(v*float64(n)*(1-1e-12)))-1, 0), n-1)
}

// Counts returns the number of elements of x in each of the Bins.
func Counts(x []float64) []int {
	counts := make([]int, Bins)
	for _, v := range x {
		counts[Bin(v, Bins)]++
	}
	return counts
}

// PValues returns the expected number of p-values in each of the Bins, for rows that are
// exchangeable with n calibration rows. Such a row has each of the n+1 possible p-values with
// equal probability.
func PValues(rows, n int) []float64 {
	expected := make([]float64, Bins)
	for k := range n + 1 {
		expected[Bin(float64(k+1)/float64(n+1), Bins)] += float64(rows) / float64(n+1)
	}
	return expected
}
