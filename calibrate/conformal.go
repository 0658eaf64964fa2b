package calibrate

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Conformal calibrates a score that grows with uncertainty. Scores are the scores of
// in-distribution calibration rows, in increasing order.
//
// The guaranteed false-alarm rate is an average over draws of the calibration set. With n rows
// and no ties, the rate of one calibrated threshold has a beta distribution with mean
// ⌊α(n+1)⌋/(n+1).
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World, chapter
// 2.
type Conformal struct {
	Scores []float64
}

// NewConformal stores a sorted copy of the calibration scores. It returns an error if one is
// NaN. Infinite scores are allowed.
func NewConformal(scores []float64) (Conformal, error) {
	s, err := sortedCopy(scores)
	return Conformal{Scores: s}, err
}

// PValue returns (1 + #{calibration scores ≥ s}) / (n+1). For a row exchangeable with the
// calibration rows, P(PValue ≤ α) ≤ α. Ties make the p-value larger. NaN is treated as +Inf,
// the highest uncertainty.
func (c Conformal) PValue(s float64) float64 {
	n := len(c.Scores)
	if math.IsNaN(s) {
		s = math.Inf(1)
	}
	atLeast := n - sort.SearchFloat64s(c.Scores, s)
	return float64(1+atLeast) / float64(n+1)
}

// Threshold returns the ⌈(1−α)(n+1)⌉-th smallest calibration score. Flagging the scores above
// it raises a false alarm with probability at most α. It is +Inf if there are too few rows, α
// < 1/(n+1), and −Inf for α ≥ 1.
//
// s > Threshold(α) and PValue(s) ≤ α are equivalent for every finite s and every α, including
// rounding and ties.
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

// sortedCopy sorts a copy of the scores. It returns an error if one is NaN, because NaN cannot
// be ordered.
func sortedCopy(scores []float64) ([]float64, error) {
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return nil, fmt.Errorf("calibration score %d is NaN: remove the row", i)
	}
	out := slices.Clone(scores)
	slices.Sort(out)
	return out, nil
}
