package evidence

import (
	"math"
	"sort"
)

// Misses is how many of n calibration rows may be missed for a promise, in the
// words of conformal prediction ⌊α(n+1)⌋. Over draws of the calibration rows the
// probability of a miss is then Beta(Allowed, n+1−Allowed) at most, and the
// number of misses among fresh rows beta-binomial.
//
// References: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors; Angelopoulos & Bates (2021), A Gentle Introduction to Conformal
// Prediction, appendix C.
type Misses struct{ Allowed, Calibration int }

// AtLeast is the probability of count misses or more among fresh rows.
func (m Misses) AtLeast(count, rows int) float64 {
	a, b := float64(m.Allowed), float64(m.Calibration+1-m.Allowed)
	switch {
	case count <= 0:
		return 1
	case count > rows || m.Allowed == 0:
		return 0
	case b == 0:
		return 1
	}
	n := float64(rows)
	// The smaller tail is summed, outwards.
	if mean := n * a / (a + b); float64(count) <= mean {
		var sum float64
		for k, p := float64(count-1), pmf(float64(count-1), n, a, b); k >= 0 && p > sum*1e-17; k-- {
			sum += p
			p *= k * (n - k + b) / ((n - k + 1) * (k - 1 + a))
		}
		return max(0, 1-sum)
	}
	var sum float64
	for k, p := float64(count), pmf(float64(count), n, a, b); k <= n && p > sum*1e-17; k++ {
		sum += p
		p *= (n - k) * (k + a) / ((k + 1) * (n - k - 1 + b))
	}
	return min(1, sum)
}

// pmf is the beta-binomial probability of k of n.
func pmf(k, n, a, b float64) float64 {
	return math.Exp(choose(n, k) + lbeta(k+a, n-k+b) - lbeta(a, b))
}

func choose(n, k float64) float64 { return -math.Log(n+1) - lbeta(n-k+1, k+1) }

func lbeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// Critical is the least number of misses among fresh rows that has less than
// that probability; it may be rows+1.
func (m Misses) Critical(rows int, probability float64) int {
	return sort.Search(rows+1, func(count int) bool { return m.AtLeast(count, rows) < probability })
}

// Power is the probability that misses with probability p among fresh rows are
// at least as many as Critical says.
func (m Misses) Power(rows int, probability, p float64) float64 {
	return Binomial(m.Critical(rows, probability), rows, p)
}

// mostRows bounds RowsFor.
const mostRows = 1 << 24

// RowsFor is about the least number of fresh rows with which Power reaches power,
// and whether there is one: calibration rows may be too few for any.
func (m Misses) RowsFor(power, probability, p float64) (rows int, ok bool) {
	enough := func(rows int) bool { return m.Power(rows, probability, p) >= power }
	high := 1
	for ; !enough(high); high *= 2 {
		if high >= mostRows {
			return 0, false
		}
	}
	low := high / 2
	return low + 1 + sort.Search(high-low-1, func(i int) bool { return enough(low + 1 + i) }), true
}
