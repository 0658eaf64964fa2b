package hypothesis

import "math"

// Slack is the relative rounding error of α that intervals and sets tolerate. For example,
// 1−0.9 counts as 0.1.
const Slack = 1e-12

// Forgive returns α increased by Slack, so that rounding errors do not reduce a level.
func Forgive(alpha float64) float64 { return alpha * (1 + Slack) }

// Allowed returns the largest m in [0, n+1] with m/(n+1) ≤ α in floating point. It is the
// number of n+1 exchangeable scores that may be flagged as extreme at level α.
func Allowed(n int, alpha float64) int {
	if math.IsNaN(alpha) {
		panic("hypothesis: level is NaN")
	}
	total := float64(n + 1)
	m := math.Floor(min(max(alpha, 0), 1) * total)
	for m > 0 && m/total > alpha {
		m--
	}
	for m < total && (m+1)/total <= alpha {
		m++
	}
	return int(m)
}

// ExpectedCoverage returns the mean coverage ⌈(1−α)(n+1)⌉/(n+1) of split conformal intervals
// and sets with n calibration rows, if scores have no ties.
func ExpectedCoverage(n int, alpha float64) float64 {
	return 1 - float64(Allowed(n, Forgive(alpha)))/float64(n+1)
}

// LeastPValue returns the smallest p-value that n calibration rows can give.
func LeastPValue(n int) float64 { return 1 / float64(n+1) }

// LeastRows returns ⌈1/α⌉−1, the smallest number of calibration rows with which rows can be
// flagged at false-alarm rate α. This is the smallest n with LeastPValue(n) ≤ α. LeastRows
// returns math.MaxInt if no number of rows is enough.
func LeastRows(alpha float64) int {
	n := math.Ceil(1/alpha) - 1
	if !(n < 1<<53) {
		return math.MaxInt
	}
	// Round the quotient in the same way as p-values.
	if n > 0 && 1/n <= alpha {
		n--
	}
	if 1/(n+1) > alpha {
		n++
	}
	return max(int(n), 0)
}

// Halved returns how many of n calibration rows calibrate if the other half fits the
// scores.
func Halved(n int) int { return n - n/2 }

// Whole returns the smallest number of calibration rows for which Halved returns n.
func Whole(n int) int { return 2*n - 1 }
