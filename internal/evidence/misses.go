package evidence

import (
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
//
// Where fresh and calibration rows are in any order alike, it is that of fewer than
// Allowed calibration rows among the count+Allowed−1 most extreme of all.
func (m Misses) AtLeast(count, rows int) float64 {
	switch {
	case count <= 0:
		return 1
	case count > rows || m.Allowed == 0:
		return 0
	}
	return Hypergeometric(m.Allowed-1, count+m.Allowed-1, m.Calibration, m.Calibration+rows)
}

// AtMost is the probability of count misses or fewer among fresh rows.
func (m Misses) AtMost(count, rows int) float64 {
	switch {
	case count < 0:
		return 0
	case count >= rows || m.Allowed == 0:
		return 1
	}
	// At least Allowed calibration rows are among so many, and no more than count
	// of the others.
	return Hypergeometric(count, count+m.Allowed, rows, m.Calibration+rows)
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
