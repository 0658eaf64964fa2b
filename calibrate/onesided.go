package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// oneSided calibrates an interval with one end, which is a predicted quantile moved by a
// margin. Scores holds quantile−y for "lower" or y−quantile for "upper" of each calibration
// row, in increasing order.
//
// A lower bound at α starts from the quantile α, and an upper bound from the quantile 1−α.
// The guarantee would hold for any other quantile too. A lower and an upper bound at α/2
// together form a two-sided interval at α, with a separate margin for each end. This
// interval is a little wider than the interval of the score "cqr".
//
// Reference: Romano, Patterson & Candès (2019), Conformalized Quantile Regression, theorem
// 2, for one side.
type oneSided struct {
	Side     string
	Scores   []float64
	weighted *WeightedConformal // the same scores with their weights; nil without weights
}

// newOneSided computes the scores from the predicted quantiles and the targets of the
// calibration rows. It returns an error if a score is NaN. weights is nil if all rows weigh
// the same.
func newOneSided(side string, quantiles, y, weights []float64) (oneSided, error) {
	scores := make([]float64, len(y))
	for i := range y {
		scores[i] = sidedScore(side, quantiles[i], y[i])
		if math.IsNaN(scores[i]) {
			return oneSided{}, fmt.Errorf("calibration row %d: a quantile or the target is NaN", i)
		}
	}
	s, weighted, err := sortWeighted(scores, weights)
	return oneSided{side, s, weighted}, err
}

// sidedScore returns how far y lies outside the interval that ends at the quantile, rounded up.
func sidedScore(side string, quantile, y float64) float64 {
	if side == conformal.Lower {
		return subtractUp(quantile, y)
	}
	return subtractUp(y, quantile)
}

// bound returns the calibrated bound of a row with this predicted quantile. The bound is
// rounded inwards, and smoothed by τ as IntervalOptions.Smoothed describes. If there are
// too few calibration rows for α, it is −Inf for "lower" and +Inf for "upper". weight is the
// weight of the row, if rows have weights.
func (o oneSided) bound(quantile, alpha, tau, weight float64) float64 {
	limit := thresholdAt(o.Scores, o.weighted, alpha, tau, weight)
	if o.Side == conformal.Lower {
		return limit.lowerEnd(quantile, 1)
	}
	return limit.upperEnd(quantile, 1)
}

// sidedLevel returns the level of the quantile from which a one-sided bound at α starts.
func sidedLevel(side string, alpha float64) float64 {
	if side == conformal.Lower {
		return alpha
	}
	return 1 - alpha
}

// calibrateSide calibrates intervals at α with one end, from the quantiles at sidedLevel.
func (q QuantileCalibration) calibrateSide(side string, alpha float64) (oneSided, error) {
	if err := q.check(); err != nil {
		return oneSided{}, err
	}
	quantiles, y := make([]float64, len(q.Y)), make([]float64, len(q.Y))
	for i, v := range q.Y {
		quantiles[i], y[i] = q.quantile(q.row(i), sidedLevel(side, alpha)), float64(v)
	}
	return newOneSided(side, quantiles, y, q.Weights)
}
