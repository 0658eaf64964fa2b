package calibrate

import (
	"fmt"
	"math"
)

// CQR calibrates an interval between two predicted quantiles: Scores are
// max(lower−y, y−upper) over the calibration rows, increasing.
//
// Reference: Romano, Patterson & Candès (2019), Conformalized Quantile
// Regression, algorithm 1.
type CQR struct {
	Scores []float64
}

// NewCQR computes the scores from the predicted lower and upper quantiles and
// the targets of the calibration rows. It panics if the lengths differ; a NaN
// is an error.
func NewCQR(lower, upper, y []float64) (CQR, error) {
	if len(lower) != len(y) || len(upper) != len(y) {
		panic("calibrate: quantiles and targets differ in length")
	}
	all, err := cqrScores(lower, upper, y)
	if err != nil {
		return CQR{}, err
	}
	s, err := sortedCopy(all)
	return CQR{Scores: s}, err
}

// cqrScores are max(lower−y, y−upper), rounded up, element by element.
func cqrScores(lower, upper, y []float64) ([]float64, error) {
	out := make([]float64, len(y))
	for i := range y {
		out[i] = max(minusUp(lower[i], y[i]), minusUp(y[i], upper[i]))
		if math.IsNaN(out[i]) {
			return nil, fmt.Errorf("calibration row %d has a quantile or a target that is not a number", i)
		}
	}
	return out, nil
}

// Margin is what both ends of an interval move outwards so that it misses
// with probability at most α: the ⌈(1−α)(n+1)⌉-th smallest score. It is
// negative where the quantiles were too wide, and +Inf where n is too small
// for α.
func (c CQR) Margin(alpha float64) float64 {
	return upper(c.Scores, forgive(alpha))
}

// Interval is [lo−margin, hi+margin], rounded inwards; scores are rounded up,
// so that it holds just the targets that score at most the margin.
// An interval that a negative margin would turn inside out becomes its
// midpoint, which can only add coverage.
func (c CQR) Interval(lo, hi, alpha float64) (lower, upper float64) {
	lower, upper = threshold{score: c.Margin(alpha)}.interval(lo, hi, 1)
	if lower > upper {
		return midpoint(lo, hi)
	}
	return lower, upper
}

func midpoint(lo, hi float64) (float64, float64) {
	mid := lo + (hi-lo)/2
	return mid, mid
}
