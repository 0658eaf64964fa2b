package hypothesis

import "math"

// Slack is the relative error in α that intervals and sets forgive: it
// makes 1−0.9 mean 0.1.
const Slack = 1e-12

// Forgive is an α that is larger by Slack.
func Forgive(alpha float64) float64 { return alpha * (1 + Slack) }

// Allowed is the largest m in [0, n+1] for which m/(n+1) ≤ α holds in
// floating point: how many of n+1 exchangeable scores may be called extreme.
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

// ExpectedCoverage is the coverage that split conformal intervals and sets
// with n calibration rows have on average when scores have no ties:
// ⌈(1−α)(n+1)⌉/(n+1).
func ExpectedCoverage(n int, alpha float64) float64 {
	return 1 - float64(Allowed(n, Forgive(alpha)))/float64(n+1)
}

// LeastPValue is the least that n calibration rows allow.
func LeastPValue(n int) float64 { return 1 / float64(n+1) }

// LeastRows is the least number n of calibration rows with which anything can be
// flagged at false-alarm rate α: ⌈1/α⌉−1, of which LeastPValue is at most α. It is math.MaxInt for an α that no number of rows serves.
func LeastRows(alpha float64) int {
	n := math.Ceil(1/alpha) - 1
	if !(n < 1<<53) {
		return math.MaxInt
	}
	// The quotient is rounded, as p-values are.
	if n > 0 && 1/n <= alpha {
		n--
	}
	if 1/(n+1) > alpha {
		n++
	}
	return max(int(n), 0)
}

// Halved is how many of n calibration rows calibrate where the others learn what is to
// be calibrated.
func Halved(n int) int { return n - n/2 }

// Whole is the least number of calibration rows of which n calibrate, so Halved.
func Whole(n int) int { return 2*n - 1 }
