package calibrate

import (
	"fmt"
	"math"
	"sort"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// upper returns the ⌈(1−α)(n+1)⌉-th smallest of n sorted scores, +Inf if
// that is beyond the last, −Inf if it is before the first. That one of n
// exchangeable scores exceeds it has probability at most α.
func upper(sorted []float64, alpha float64) float64 {
	n := len(sorted)
	switch m := hypothesis.Allowed(n, alpha); m {
	case 0:
		return math.Inf(1)
	case n + 1:
		return math.Inf(-1)
	default:
		return sorted[n-m]
	}
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
