package hypothesis

import "gonum.org/v1/gonum/mathext"

// Interval is the interval of Clopper & Pearson (1934), with the given
// confidence, of the probability of what came true count times of n. It is
// [0, 1] where n is 0.
func Interval(count, n int, confidence float64) (low, high float64) {
	k, rest, tail := float64(count), float64(n-count), (1-confidence)/2
	low, high = 0, 1
	if count > 0 {
		low = mathext.InvRegIncBeta(k, rest+1, tail)
	}
	if count < n {
		high = mathext.InvRegIncBeta(k+1, rest, 1-tail)
	}
	return low, high
}

// Binomial is the probability that what has probability p comes true at least
// count times of n.
func Binomial(count, n int, p float64) float64 {
	switch {
	case count <= 0:
		return 1
	case count > n:
		return 0
	}
	return mathext.RegIncBeta(float64(count), float64(n-count+1), p)
}
