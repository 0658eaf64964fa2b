package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// Joint calibrates a box of intervals, one for each of several targets, that
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
type Joint struct {
	Targets int
	Scores  []float64
}

// newJoint computes the scores from the predicted quantiles and the targets of
// the calibration rows, n×targets and row-major. It panics if the lengths do not
// fit; a NaN and quantiles that cross are errors.
func newJoint(lower, upper, y []float64, targets int) (Joint, error) {
	if targets < 1 || len(lower) != len(y) || len(upper) != len(y) || len(y)%targets != 0 {
		panic("calibrate: quantiles and targets differ in length")
	}
	all, err := cqrScores(lower, upper, y)
	if err != nil {
		return Joint{}, err
	}
	joint := make([]float64, len(y)/targets)
	for i := range joint {
		joint[i] = math.Inf(-1)
		for c := i * targets; c < (i+1)*targets; c++ {
			if lower[c] > upper[c] {
				return Joint{}, fmt.Errorf("calibration row %d has an interval from %v to %v", i, lower[c], upper[c])
			}
			joint[i] = max(joint[i], scaled(all[c], upper[c]-lower[c]))
		}
	}
	j := Joint{Targets: targets}
	j.Scores, err = sortedCopy(joint)
	return j, err
}

// Margin is what the ends of every target's interval move outwards, in widths
// of the target, so that the box misses a target with probability at most α:
// the ⌈(1−α)(n+1)⌉-th smallest score, +Inf where n is too small for α.
func (j Joint) Margin(alpha float64) float64 {
	return upper(j.Scores, forgive(alpha))
}

// Box is the box at α of a row whose predicted quantiles are lo and hi, one for
// each target, rounded inwards. An interval that a negative margin would turn
// inside out becomes its midpoint, which can only add coverage.
func (j Joint) Box(lo, hi []float64, alpha float64) (lower, upper []float64) {
	lower, upper = j.box(threshold{score: j.Margin(alpha)}, lo, hi)
	for t := range lower {
		if lower[t] > upper[t] {
			lower[t], upper[t] = midpoint(lo[t], hi[t])
		}
	}
	return lower, upper
}

func (j Joint) box(limit threshold, lo, hi []float64) (lower, upper []float64) {
	if len(lo) != j.Targets || len(hi) != j.Targets {
		panic("calibrate: a box needs quantiles of every target")
	}
	lower, upper = make([]float64, j.Targets), make([]float64, j.Targets)
	for t := range lo {
		lower[t], upper[t] = limit.interval(lo[t], hi[t], hi[t]-lo[t])
	}
	return lower, upper
}

// NewJoint calibrates, from the calibration of each target on the same rows,
// the box of all their central intervals between the quantiles α/2 and 1−α/2,
// scaled by their own widths.
func NewJoint(targets []QuantileCalibration, alpha float64) (Joint, error) {
	if len(targets) == 0 {
		return Joint{}, errors.New("a joint region needs a target")
	}
	n, t := len(targets[0].Y), len(targets)
	lo, hi, y := make([]float64, n*t), make([]float64, n*t), make([]float64, n*t)
	for k, q := range targets {
		if err := q.Validate(); err != nil {
			return Joint{}, err
		}
		if len(q.Y) != n {
			return Joint{}, fmt.Errorf("target %d has %d calibration rows and target 0 has %d", k, len(q.Y), n)
		}
		low, targets := q.at(alpha / 2)
		high, _ := q.at(1 - alpha/2)
		for i := range n {
			lo[i*t+k], hi[i*t+k], y[i*t+k] = low[i], high[i], targets[i]
		}
	}
	return newJoint(lo, hi, y, t)
}
