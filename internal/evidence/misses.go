package evidence

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
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

// beta are the parameters of the probability of a miss.
func (m Misses) beta() (a, b float64) {
	return float64(m.Allowed), float64(m.Calibration + 1 - m.Allowed)
}

// AtLeast is the probability of count misses or more among fresh rows.
func (m Misses) AtLeast(count, rows int) float64 {
	a, b := m.beta()
	switch {
	case count <= 0:
		return 1
	case count > rows || a == 0:
		return 0
	case b == 0:
		return 1
	}
	n := float64(rows)
	var sum float64
	// The smaller tail is summed, outwards.
	if float64(count) <= n*a/(a+b) {
		for k, p := float64(count-1), chance(float64(count-1), n, a, b); k >= 0 && p > sum*1e-17; k-- {
			sum += p
			p *= k * (n - k + b) / ((n - k + 1) * (k - 1 + a))
		}
		return max(0, 1-sum)
	}
	for k, p := float64(count), chance(float64(count), n, a, b); k <= n && p > sum*1e-17; k++ {
		sum += p
		p *= (n - k) * (k + a) / ((k + 1) * (n - k - 1 + b))
	}
	return min(1, sum)
}

// chance is the beta-binomial probability of k of n.
func chance(k, n, a, b float64) float64 {
	return math.Exp(mathext.Lbeta(k+a, n-k+b) - mathext.Lbeta(a, b) - math.Log(n+1) - mathext.Lbeta(n-k+1, k+1))
}

// Critical is the least number of misses among fresh rows of which so many or
// more have less than that probability; it may be rows+1.
func (m Misses) Critical(rows int, probability float64) int {
	return sort.Search(rows+1, func(count int) bool { return m.AtLeast(count, rows) < probability })
}

// Power is the probability that misses with probability p among fresh rows are
// at least as many as Critical says.
func (m Misses) Power(rows int, probability, p float64) float64 {
	return Binomial(m.Critical(rows, probability), rows, p)
}

// Telling says that with fresh rows enough Power comes to 1, and not to 0: that
// calibration rows are enough.
func (m Misses) Telling(probability, p float64) bool {
	a, b := m.beta()
	return a > 0 && b > 0 && mathext.RegIncBeta(a, b, p) > 1-probability
}

// mostRows bounds what is searched among.
const mostRows = 1 << 20

// RowsFor is about the least number of fresh rows with which Power reaches power,
// or 0 where that is above a million.
func (m Misses) RowsFor(power, probability, p float64) int {
	return least(func(rows int) bool { return m.Power(rows, probability, p) >= power })
}

// CalibrationFor is about the least number of calibration rows that are Telling at
// α, or 0 where that is above a million.
func CalibrationFor(alpha, probability, p float64) int {
	return least(func(rows int) bool {
		return Misses{int(alpha * float64(rows+1) * (1 + 1e-12)), rows}.Telling(probability, p)
	})
}

// least is about the first number for which enough holds, which it does for most
// that are larger.
func least(enough func(int) bool) int {
	high := 1
	for ; !enough(high); high *= 2 {
		if high >= mostRows {
			return 0
		}
	}
	low := high / 2
	return low + 1 + sort.Search(high-low-1, func(i int) bool { return enough(low + 1 + i) })
}
