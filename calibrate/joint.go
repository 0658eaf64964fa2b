package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// joint calibrates a box of intervals, one for each target, that covers all targets of a row
// at once. Scores has the largest score over the targets of each calibration row, in
// increasing order. With several targets, the score of each is a fraction of the width of its
// core.
//
// With probability at least 1−α, every target of a new row lies in its interval. That holds
// for any dependence between targets, if the calibration rows and the new row are
// exchangeable. Each target alone is covered more often than 1−α.
//
// Reference: Diquigiovanni, Fontana & Vantini (2022), Conformal Prediction Bands for
// Multivariate Functional Data, section 3, for finitely many targets and the score "cqr".
type jointBox struct{ Scores []float64 }

// newJoint computes the scores from the cores and the targets of the calibration rows,
// n×targets and row-major. It returns an error if a score is NaN or if quantiles cross.
func newJointBox(base []baseInterval, y []float64, targets int) (jointBox, error) {
	largest := make([]float64, len(y)/targets)
	for i := range largest {
		largest[i] = math.Inf(-1)
		for k := i * targets; k < (i+1)*targets; k++ {
			c, score := base[k], base[k].score(y[k])
			switch {
			case math.IsNaN(score):
				return jointBox{}, fmt.Errorf("calibration row %d: a quantile or the target is NaN", i)
			case c.lo > c.hi:
				return jointBox{}, fmt.Errorf("calibration row %d: the lower quantile %v is above the upper quantile %v", i, c.lo, c.hi)
			}
			largest[i] = max(largest[i], score)
		}
	}
	scores, err := sortedCopy(largest)
	return jointBox{scores}, err
}

// ends writes the ends of the box at α for a row with one core for each target. Ends are
// rounded inwards and smoothed as IntervalOptions.Smoothed describes. One τ opens or closes
// the whole box, and a box is empty if one of its intervals is.
func (j jointBox) ends(lower, upper []float64, base []baseInterval, alpha, tau float64) {
	limit := smoothedThreshold(j.Scores, alpha, tau)
	for t, c := range base {
		lower[t], upper[t] = limit.lowerEnd(c.lo, c.lowerUnit), limit.upperEnd(c.hi, c.upperUnit)
		if tau == 0 && lower[t] > upper[t] {
			lower[t] = c.lo + (c.hi-c.lo)/2
			upper[t] = lower[t]
		}
	}
}

// calibrateBox calibrates the box of all targets' intervals from the calibration of each
// target on the same rows.
func (o IntervalOptions) calibrateBox(targets []QuantileCalibration, alpha float64, rectifiers []rectifier) (jointBox, error) {
	if len(targets) == 0 {
		return jointBox{}, errors.New("a joint box needs at least one target")
	}
	n, t := len(targets[0].Y), len(targets)
	base, y := make([]baseInterval, n*t), make([]float64, n*t)
	for k, q := range targets {
		if err := q.check(); err != nil {
			return jointBox{}, err
		}
		for i := range n {
			base[i*t+k], y[i*t+k] = o.baseInterval(q, q.row(i), alpha, rectifiers[k]), float64(q.Y[i])
		}
	}
	return newJointBox(base, y, t)
}
