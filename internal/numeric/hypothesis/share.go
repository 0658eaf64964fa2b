package hypothesis

import "gonum.org/v1/gonum/mathext"

// Interval returns the confidence interval of Clopper & Pearson (1934) for the probability of
// an event that occurred count times in n trials. If n is 0, the interval is [0, 1].
func Interval(count, n int, confidence float64) (low, high float64) {
	return FractionInterval(float64(count), float64(n-count), confidence)
}

// FractionInterval returns the same interval if the event occurred in count trials and did not
// occur in rest trials. The numbers need not be whole.
func FractionInterval(count, rest, confidence float64) (low, high float64) {
	tail := (1 - confidence) / 2
	low, high = 0, 1
	if count > 0 {
		low = mathext.InvRegIncBeta(count, rest+1, tail)
	}
	if rest > 0 {
		high = mathext.InvRegIncBeta(count+1, rest, 1-tail)
	}
	return low, high
}

// Binomial returns the probability that an event with probability p occurs at least count
// times in n trials.
func Binomial(count, n int, p float64) float64 {
	switch {
	case count <= 0:
		return 1
	case count > n:
		return 0
	}
	return mathext.RegIncBeta(float64(count), float64(n-count+1), p)
}
