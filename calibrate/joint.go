package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// joint calibrates a box of intervals, one for each of one or several targets, that
// covers all targets of a row at once: Scores are, over the calibration rows
// and increasing, the largest over targets of the score of the row's core, which for
// several is a share of what is predicted of the target.
//
// With probability at least 1−α every target of a new row lies in its
// interval. That holds whatever the dependence between targets, where
// calibration rows and the new row are exchangeable. Each target alone is covered
// more often than 1−α.
//
// Reference: Diquigiovanni, Fontana & Vantini (2022), Conformal Prediction
// Bands for Multivariate Functional Data, section 3, for finitely many targets
// and the score "cqr".
type joint struct{ Scores []float64 }

// newJoint computes the scores from the cores and the targets of the calibration
// rows, n×targets and row-major. A NaN and quantiles that cross are errors.
func newJoint(cores []core, y []float64, targets int) (joint, error) {
	largest := make([]float64, len(y)/targets)
	for i := range largest {
		largest[i] = math.Inf(-1)
		for k := i * targets; k < (i+1)*targets; k++ {
			c, score := cores[k], cores[k].score(y[k])
			switch {
			case math.IsNaN(score):
				return joint{}, fmt.Errorf("calibration row %d has a quantile or a target that is not a number", i)
			case c.lo > c.hi:
				return joint{}, fmt.Errorf("calibration row %d has an interval from %v to %v", i, c.lo, c.hi)
			}
			largest[i] = max(largest[i], score)
		}
	}
	scores, err := sortedCopy(largest)
	return joint{scores}, err
}

// box writes the ends of the box at α of a row with a core for each target, rounded
// inwards, and smoothed as IntervalOptions says: one τ opens or closes the
// box as a whole, and a box with an empty interval is empty.
func (j joint) box(lower, upper []float64, cores []core, alpha, tau float64) {
	limit := smoothed(j.Scores, alpha, tau)
	for t, c := range cores {
		lower[t], upper[t] = limit.lowerEnd(c.lo, c.below), limit.upperEnd(c.hi, c.above)
		if tau == 0 && lower[t] > upper[t] {
			lower[t] = c.lo + (c.hi-c.lo)/2
			upper[t] = lower[t]
		}
	}
}

// jointOf calibrates, from the calibration of each target on the same rows, the box
// of all their intervals.
func (o IntervalOptions) jointOf(targets []QuantileCalibration, alpha float64, by []rectifier) (joint, error) {
	if len(targets) == 0 {
		return joint{}, errors.New("a joint region needs a target")
	}
	n, t := len(targets[0].Y), len(targets)
	cores, y := make([]core, n*t), make([]float64, n*t)
	for k, q := range targets {
		if err := q.check(); err != nil {
			return joint{}, err
		}
		for i := range n {
			cores[i*t+k], y[i*t+k] = o.core(q, q.row(i), alpha, by[k]), float64(q.Y[i])
		}
	}
	return newJoint(cores, y, t)
}
