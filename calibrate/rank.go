package calibrate

import (
	"fmt"
	"math"
	"sort"
)

// rankSlack is the relative error in α that intervals and sets forgive: it
// makes 1−0.9 mean 0.1.
const rankSlack = 1e-12

func forgive(alpha float64) float64 { return alpha * (1 + rankSlack) }

// allowed returns the largest m in [0, n+1] for which m/(n+1) ≤ α holds in
// floating point: how many of n+1 exchangeable scores may be called extreme.
func allowed(n int, alpha float64) int {
	if math.IsNaN(alpha) {
		panic("calibrate: level is NaN")
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

// upper returns the ⌈(1−α)(n+1)⌉-th smallest of n sorted scores, +Inf if
// that is beyond the last, −Inf if it is before the first. That one of n
// exchangeable scores exceeds it has probability at most α.
func upper(sorted []float64, alpha float64) float64 {
	n := len(sorted)
	switch m := allowed(n, alpha); m {
	case 0:
		return math.Inf(1)
	case n + 1:
		return math.Inf(-1)
	default:
		return sorted[n-m]
	}
}

// ExpectedCoverage is the coverage that split conformal intervals and sets
// with n calibration rows have on average when scores have no ties:
// ⌈(1−α)(n+1)⌉/(n+1).
func ExpectedCoverage(n int, alpha float64) float64 {
	return 1 - float64(allowed(n, forgive(alpha)))/float64(n+1)
}

// sortedCopy sorts a copy of scores. NaN has no place in an order and is an
// error.
func sortedCopy(scores []float64) ([]float64, error) {
	for i, s := range scores {
		if math.IsNaN(s) {
			return nil, fmt.Errorf("calibration score %d is NaN: remove the row or repair what made it", i)
		}
	}
	out := append([]float64(nil), scores...)
	sort.Float64s(out)
	return out, nil
}
