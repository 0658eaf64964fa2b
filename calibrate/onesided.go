package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// oneSided calibrates a one-sided interval that begins or ends at a predicted
// quantile: Scores are quantile−y for "lower" and y−quantile for "upper" over the
// calibration rows, increasing.
//
// The quantile that suits a bound that is to be missed with probability α is
// that of level α for "lower" and 1−α for "upper", where an interval with two ends takes α/2 and 1−α/2;
// the promise holds for any. A lower and an upper bound at α/2 each are a
// two-sided interval at α whose ends have margins of their own, a little wider
// than that of the score "cqr".
//
// Reference: Romano, Patterson & Candès (2019), Conformalized Quantile
// Regression, theorem 2, one side of it.
type oneSided struct {
	Side   string
	Scores []float64
}

// newOneSided computes the scores from the predicted quantiles and the targets
// of the calibration rows. A NaN is an error.
func newOneSided(side string, quantiles, y []float64) (oneSided, error) {
	scores := make([]float64, len(y))
	for i := range y {
		if scores[i] = minusUp(y[i], quantiles[i]); side == conformal.Lower {
			scores[i] = minusUp(quantiles[i], y[i])
		}
		if math.IsNaN(scores[i]) {
			return oneSided{}, fmt.Errorf("calibration row %d has a quantile or a target that is not a number", i)
		}
	}
	s, err := sortedCopy(scores)
	return oneSided{Side: side, Scores: s}, err
}

// bound is the calibrated bound of a row with the predicted quantile, rounded
// inwards, and smoothed by τ as IntervalOptions says: −Inf for "lower" and +Inf for "upper"
// where calibration rows are too few for α.
func (o oneSided) bound(quantile, alpha, tau float64) float64 {
	limit := smoothed(o.Scores, alpha, tau)
	if o.Side == conformal.Lower {
		return limit.lowerEnd(quantile, 1)
	}
	return limit.upperEnd(quantile, 1)
}

// sidedLevel is the level of the quantile that a bound at α is calibrated from.
func sidedLevel(side string, alpha float64) float64 {
	if side == conformal.Lower {
		return alpha
	}
	return 1 - alpha
}

// side returns the calibration of a one-sided interval at α, which begins or
// ends at the quantile of sidedLevel.
func (q QuantileCalibration) side(side string, alpha float64) (oneSided, error) {
	if err := q.check(); err != nil {
		return oneSided{}, err
	}
	quantiles, y := make([]float64, len(q.Y)), make([]float64, len(q.Y))
	for i, v := range q.Y {
		quantiles[i], y[i] = q.quantile(q.row(i), sidedLevel(side, alpha)), float64(v)
	}
	return newOneSided(side, quantiles, y)
}
