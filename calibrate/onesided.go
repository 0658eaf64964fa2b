package calibrate

import (
	"fmt"
	"math"
)

// Side is the end of a one-sided interval that is not infinite.
type Side string

const (
	// Lower bounds targets from below: the interval is [bound, +Inf).
	Lower Side = "lower"
	// Upper bounds targets from above: the interval is (−Inf, bound].
	Upper Side = "upper"
)

// oneSided calibrates a one-sided interval that begins or ends at a predicted
// quantile: Scores are quantile−y for Lower and y−quantile for Upper over the
// calibration rows, increasing.
//
// The quantile that suits a bound that is to be missed with probability α is
// that of level α for Lower and 1−α for Upper, where CQR takes α/2 and 1−α/2;
// the promise holds for any. A lower and an upper bound at α/2 each are a
// two-sided interval at α whose ends have margins of their own, a little wider
// than that of CQR.
//
// Reference: Romano, Patterson & Candès (2019), Conformalized Quantile
// Regression, theorem 2, one side of it.
type oneSided struct {
	Side   Side
	Scores []float64
}

// newOneSided computes the scores from the predicted quantiles and the targets
// of the calibration rows. It panics if there is no such side; a NaN is an error.
func newOneSided(side Side, quantiles, y []float64) (oneSided, error) {
	lower := side.sign() < 0
	scores := make([]float64, len(y))
	for i := range y {
		if scores[i] = minusUp(y[i], quantiles[i]); lower {
			scores[i] = minusUp(quantiles[i], y[i])
		}
		if math.IsNaN(scores[i]) {
			return oneSided{}, fmt.Errorf("calibration row %d has a quantile or a target that is not a number", i)
		}
	}
	s, err := sortedCopy(scores)
	return oneSided{Side: side, Scores: s}, err
}

// sign is the direction in which a bound moves to cover more.
func (s Side) sign() float64 {
	switch s {
	case Lower:
		return -1
	case Upper:
		return 1
	}
	panic(fmt.Sprintf("calibrate: no side %q", string(s)))
}

// bound is the calibrated bound of a row with the predicted quantile, rounded
// inwards, and smoothed as CQR.Interval says: −Inf for Lower and +Inf for Upper
// where calibration rows are too few for α.
func (o oneSided) bound(quantile, alpha, tau float64) float64 {
	limit := smoothed(o.Scores, alpha, tau)
	if o.Side.sign() < 0 {
		return limit.lowerEnd(quantile, 1)
	}
	return limit.upperEnd(quantile, 1)
}

// level is the level of the quantile that a bound at α is calibrated from.
func (s Side) level(alpha float64) float64 {
	if s.sign() < 0 {
		return alpha
	}
	return 1 - alpha
}

// side returns the calibration of a one-sided interval at α, which begins or
// ends at the quantile of level side.level(α).
func (q QuantileCalibration) side(side Side, alpha float64) (oneSided, error) {
	if err := q.Validate(); err != nil {
		return oneSided{}, err
	}
	quantiles, y := q.at(side.level(alpha))
	return newOneSided(side, quantiles, y)
}
