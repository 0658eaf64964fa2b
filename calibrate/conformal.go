package calibrate

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Conformal calibrates a score that grows with uncertainty. Scores are the
// scores of in-domain calibration rows, increasing.
//
// The false-alarm rate promised is over draws of the calibration set: with n
// rows and no ties, the rate of one calibrated threshold varies around
// ⌊α(n+1)⌋/(n+1) as a Beta distribution.
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a
// Random World, chapter 2.
type Conformal struct {
	Scores []float64
}

// NewConformal stores a sorted copy of the calibration scores. A NaN is an
// error; infinite scores are allowed.
func NewConformal(scores []float64) (Conformal, error) {
	s, err := sortedCopy(scores)
	return Conformal{Scores: s}, err
}

// PValue is (1 + #{calibration scores ≥ s}) / (n+1): for a row exchangeable
// with the calibration rows, P(PValue ≤ α) ≤ α. Ties count against an alarm.
// A NaN is as uncertain as can be: it has the p-value of +Inf.
func (c Conformal) PValue(s float64) float64 {
	n := len(c.Scores)
	if math.IsNaN(s) {
		s = math.Inf(1)
	}
	atLeast := n - sort.SearchFloat64s(c.Scores, s)
	return float64(1+atLeast) / float64(n+1)
}

// Threshold is the ⌈(1−α)(n+1)⌉-th smallest calibration score: flagging the
// scores above it raises a false alarm with probability at most α. It is +Inf
// where n is too small, that is α < 1/(n+1), and −Inf for α ≥ 1.
//
// s > Threshold(α) and PValue(s) ≤ α are the same statement for every finite
// s and every α, rounding and ties included.
func (c Conformal) Threshold(alpha float64) float64 {
	n := len(c.Scores)
	switch m := hypothesis.Allowed(n, alpha); m {
	case 0:
		return math.Inf(1)
	case n + 1:
		return math.Inf(-1)
	default:
		return c.Scores[n-m]
	}
}

// sortedCopy sorts a copy of scores. NaN has no place in an order and is an
// error.
func sortedCopy(scores []float64) ([]float64, error) {
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return nil, fmt.Errorf("calibration score %d is NaN: remove the row or repair what made it", i)
	}
	out := slices.Clone(scores)
	slices.Sort(out)
	return out, nil
}
