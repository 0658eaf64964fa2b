package calibrate

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Conformal turns the score of a row into a p-value. Higher scores mean more uncertainty.
// Scores holds the scores of in-distribution calibration rows, in increasing order.
//
// The guaranteed false-alarm rate is an average over draws of the calibration set. The rate
// for one calibration set varies: with n rows and no ties, it has a beta distribution with
// mean ⌊α(n+1)⌋/(n+1).
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World, chapter
// 2.
type Conformal struct {
	Scores []float64
}

// NewConformal stores a sorted copy of the calibration scores. Scores may be infinite, but
// a NaN is an error.
func NewConformal(scores []float64) (Conformal, error) {
	s, err := sortedCopy(scores)
	return Conformal{Scores: s}, err
}

// PValue returns (1 + #{calibration scores ≥ s}) / (n+1) for n calibration scores. If a row
// is exchangeable with the calibration rows, P(PValue ≤ α) ≤ α. Ties make the p-value
// larger. A score of NaN counts as +Inf, the highest uncertainty.
func (c Conformal) PValue(s float64) float64 {
	n := len(c.Scores)
	if math.IsNaN(s) {
		s = math.Inf(1)
	}
	atLeast := n - sort.SearchFloat64s(c.Scores, s)
	return float64(1+atLeast) / float64(n+1)
}

// Threshold returns the ⌈(1−α)(n+1)⌉-th smallest of n calibration scores. If the rows with
// higher scores are flagged, the false-alarm rate is at most α. The threshold is +Inf if
// there are too few rows (α < 1/(n+1)), and −Inf if α ≥ 1.
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

// sortedCopy returns a sorted copy of the scores. A NaN is an error, because it cannot be
// ordered.
func sortedCopy(scores []float64) ([]float64, error) {
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return nil, fmt.Errorf("the score of calibration row %d (counted from 0) is NaN: leave the row out, or correct the detector", i)
	}
	out := slices.Clone(scores)
	slices.Sort(out)
	return out, nil
}
