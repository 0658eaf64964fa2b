package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// joint calibrates a box of intervals, one for each of several targets, that
// covers all targets of a row at once: Scores are, over the calibration rows
// and increasing, the largest over targets of the CQR score divided by the width
// that is predicted, hi−lo of the row and target.
//
// With probability at least 1−α every target of a new row lies in its
// interval. That holds whatever the dependence between targets, where
// calibration rows and the new row are exchangeable. Each target alone is covered
// more often than 1−α.
//
// Reference: Diquigiovanni, Fontana & Vantini (2022), Conformal Prediction
// Bands for Multivariate Functional Data, section 3, for finitely many targets
// and scores of CQR.
type joint struct{ Scores []float64 }

// newJoint computes the scores from the predicted quantiles and the targets of
// the calibration rows, n×targets and row-major. A NaN and quantiles that cross are
// errors.
func newJoint(lower, upper, y []float64, targets int) (joint, error) {
	all, err := cqrScores(lower, upper, y)
	if err != nil {
		return joint{}, err
	}
	largest := make([]float64, len(y)/targets)
	for i := range largest {
		largest[i] = math.Inf(-1)
		for c := i * targets; c < (i+1)*targets; c++ {
			if lower[c] > upper[c] {
				return joint{}, fmt.Errorf("calibration row %d has an interval from %v to %v", i, lower[c], upper[c])
			}
			largest[i] = max(largest[i], scaled(all[c], upper[c]-lower[c]))
		}
	}
	scores, err := sortedCopy(largest)
	return joint{scores}, err
}

// box is the box at α of a row whose predicted quantiles are lo and hi, one for
// each target, rounded inwards, and smoothed as CQR.Interval says of intervals:
// one τ opens or closes the box as a whole, and a box with an empty interval is
// empty.
func (j joint) box(lo, hi []float64, alpha, tau float64) (lower, upper []float64) {
	limit := smoothed(j.Scores, alpha, tau)
	lower, upper = make([]float64, len(lo)), make([]float64, len(lo))
	for t := range lo {
		lower[t], upper[t] = limit.interval(lo[t], hi[t], hi[t]-lo[t])
		if tau == 0 && lower[t] > upper[t] {
			lower[t], upper[t] = midpoint(lo[t], hi[t])
		}
	}
	return lower, upper
}

// jointOf calibrates, from the calibration of each target on the same rows,
// the box of all their central intervals between the quantiles α/2 and 1−α/2,
// scaled by their own widths.
func jointOf(targets []QuantileCalibration, alpha float64) (joint, error) {
	if len(targets) == 0 {
		return joint{}, errors.New("a joint region needs a target")
	}
	n, t := len(targets[0].Y), len(targets)
	lo, hi, y := make([]float64, n*t), make([]float64, n*t), make([]float64, n*t)
	for k, q := range targets {
		if err := q.Validate(); err != nil {
			return joint{}, err
		}
		if len(q.Y) != n {
			return joint{}, fmt.Errorf("target %d has %d calibration rows and target 0 has %d", k, len(q.Y), n)
		}
		low, targets := q.at(alpha / 2)
		high, _ := q.at(1 - alpha/2)
		for i := range n {
			lo[i*t+k], hi[i*t+k], y[i*t+k] = low[i], high[i], targets[i]
		}
	}
	return newJoint(lo, hi, y, t)
}
