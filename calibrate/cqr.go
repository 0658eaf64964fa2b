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
	scores := make([]float64, len(y))
	for i := range y {
		if scores[i] = (core{lower[i], upper[i], 1, 1}).score(y[i]); math.IsNaN(scores[i]) {
			return CQR{}, fmt.Errorf("calibration row %d has a quantile or a target that is not a number", i)
		}
	}
	s, err := sortedCopy(scores)
	return CQR{Scores: s}, err
}

// Interval is [lo−margin, hi+margin], rounded inwards, where the margin is the
// ⌈(1−α)(n+1)⌉-th smallest score, +Inf where n is too small for α; scores are
// rounded up, so that it holds just the targets that score at most the margin.
// An interval that a negative margin would turn inside out becomes its
// midpoint, which can only add coverage.
//
// That is for a τ of 0. Where scores tie, as they do where targets or quantiles
// take few values, such as counts, grades or the leaves of trees, it covers more
// than is promised. With τ drawn uniformly from (0,1) for each row it covers with
// probability ⌈(1−α)(n+1)⌉/(n+1), no less and no more: τ decides whether targets
// that score exactly the margin are covered. The interval is then either
// closed or open, and without ties the two cover alike. An open end is moved
// inwards to the next floating-point number whose score is less than the margin,
// so that in either case the interval covers y if lower ≤ y ≤ upper, in float64.
// An interval with lower > upper is empty, and does not become its midpoint. It
// panics if τ is not in [0,1]. The promise is over draws of τ too: an interval
// drawn again, or chosen among several draws, has none.
//
// Reference for τ: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a
// Random World, section 2.2, smoothed conformal predictors.
func (c CQR) Interval(lo, hi, alpha, tau float64) (lower, upper float64) {
	var a, b [1]float64
	joint(c).box(a[:], b[:], []core{{lo, hi, 1, 1}}, alpha, tau)
	return a[0], b[0]
}
