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

// OneSided calibrates a one-sided interval that begins or ends at a predicted
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
type OneSided struct {
	Side   Side
	Scores []float64
}

// newOneSided computes the scores from the predicted quantiles and the targets
// of the calibration rows. It panics if the lengths differ or there is no such
// side; a NaN is an error.
func newOneSided(side Side, quantiles, y []float64) (OneSided, error) {
	if len(quantiles) != len(y) {
		panic("calibrate: quantiles and targets differ in length")
	}
	lower := side.sign() < 0
	scores := make([]float64, len(y))
	for i := range y {
		if scores[i] = minusUp(y[i], quantiles[i]); lower {
			scores[i] = minusUp(quantiles[i], y[i])
		}
		if math.IsNaN(scores[i]) {
			return OneSided{}, fmt.Errorf("calibration row %d has a quantile or a target that is not a number", i)
		}
	}
	s, err := sortedCopy(scores)
	return OneSided{Side: side, Scores: s}, err
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

// Margin is what the bound moves outwards so that it is missed with
// probability at most α: the ⌈(1−α)(n+1)⌉-th smallest score. It is negative
// where the quantiles were too far out, and +Inf where n is too small for α.
func (o OneSided) Margin(alpha float64) float64 {
	return upper(o.Scores, forgive(alpha))
}

// Bound is the calibrated bound of a row with the predicted quantile, rounded
// inwards: −Inf for Lower and +Inf for Upper where calibration rows are too few for α.
func (o OneSided) Bound(quantile, alpha float64) float64 {
	return o.end(threshold{score: o.Margin(alpha)}, quantile)
}

func (o OneSided) end(limit threshold, quantile float64) float64 {
	if o.Side.sign() < 0 {
		return limit.lowerEnd(quantile, 1)
	}
	return limit.upperEnd(quantile, 1)
}

// Level is the level of the quantile that a bound at α is calibrated from.
func (s Side) Level(alpha float64) float64 {
	if s.sign() < 0 {
		return alpha
	}
	return 1 - alpha
}

// Side returns the calibration of a one-sided interval at α, which begins or
// ends at the quantile of level side.Level(α).
func (q QuantileCalibration) Side(side Side, alpha float64) (OneSided, error) {
	if err := q.Validate(); err != nil {
		return OneSided{}, err
	}
	quantiles, y := q.at(side.Level(alpha))
	return newOneSided(side, quantiles, y)
}
