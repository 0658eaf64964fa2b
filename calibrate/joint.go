package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// jointBox calibrates a box: one interval for each target, which together cover all targets
// of a row. Scores holds, for each calibration row, the largest score of its targets, in
// increasing order. With IntervalOptions.Joint, the score of a target is a fraction of the
// width of its interval before calibration. With "cqr-m", it is instead a fraction of the
// distance between an end and the median.
//
// If the calibration rows and a new row are exchangeable, all targets of the new row lie in
// their intervals with probability at least 1−α. This holds for any dependence between
// targets. Each single target is covered more often than 1−α.
//
// Reference: Diquigiovanni, Fontana & Vantini (2022), Conformal Prediction Bands for
// Multivariate Functional Data, section 3, for finitely many targets and the score "cqr".
type jointBox struct {
	Scores   []float64
	weighted *WeightedConformal // the same scores with their weights; nil without weights
}

// newJointBox computes the scores of calibration rows. base and y hold the uncalibrated
// intervals and the targets of all rows, n×targets and row-major. newJointBox returns an
// error if a score is NaN or if quantiles cross. weights is nil if all rows weigh the same.
func newJointBox(base []baseInterval, y []float64, targets int, weights []float64) (jointBox, error) {
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
	scores, weighted, err := sortWeighted(largest, weights)
	return jointBox{scores, weighted}, err
}

// ends writes the ends of the box at α for one row. base holds the row's uncalibrated
// interval for each target. Ends are rounded inwards and smoothed as
// IntervalOptions.Smoothed describes. The same τ opens or closes all intervals of the box.
// A box is empty if one of its intervals is empty. weight is the weight of the row, if rows
// have weights.
func (j jointBox) ends(lower, upper []float64, base []baseInterval, alpha, tau, weight float64) {
	limit := thresholdAt(j.Scores, j.weighted, alpha, tau, weight)
	for t, c := range base {
		lower[t], upper[t] = limit.lowerEnd(c.lo, c.lowerUnit), limit.upperEnd(c.hi, c.upperUnit)
		if tau == 0 && lower[t] > upper[t] {
			lower[t] = c.lo + (c.hi-c.lo)/2
			upper[t] = lower[t]
		}
	}
}

// calibrateBox calibrates a box for all targets. Each target has its own quantiles and
// rectifier, and all targets have the same calibration rows.
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
	return newJointBox(base, y, t, targets[0].Weights)
}
