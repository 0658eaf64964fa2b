package hypothesis

import "math"

// Bins is how many a histogram of numbers from 0 to 1 has, all of one width. The
// first holds both of its ends, the others their upper one.
const Bins = 20

// Bin is that of a number, where there are n.
func Bin(v float64, n int) int {
	return min(max(int(math.Ceil(v*float64(n)*(1-1e-12)))-1, 0), n-1)
}

// Counts are how many of x are in each of Bins.
func Counts(x []float64) []int {
	counts := make([]int, Bins)
	for _, v := range x {
		counts[Bin(v, Bins)]++
	}
	return counts
}

// PValues are how many of so many p-values are expected in each of Bins: a row like
// n calibration rows has each of those there are as likely as any other.
func PValues(rows, n int) []float64 {
	expected := make([]float64, Bins)
	for k := range n + 1 {
		expected[Bin(float64(k+1)/float64(n+1), Bins)] += float64(rows) / float64(n+1)
	}
	return expected
}
