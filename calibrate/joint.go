package calibrate

import (
	"fmt"
	"math"
	"slices"
)

// Joint calibrates a box of intervals, one for each of several targets, that
// covers all targets of a row at once: Scores are, over the calibration rows
// and increasing, the largest over targets of the CQR score divided by the
// target's scale.
//
// With probability at least 1−α every target of a new row lies in its
// interval. That holds whatever the dependence between targets, where
// calibration rows and the new row are exchangeable and scales know nothing of
// the calibration rows' or the new row's targets: a row's own widths depend on
// its inputs alone, ScoreScales on rows apart. Scales that were
// estimated on the calibration rows themselves void the promise. Each target
// alone is covered more often than 1−α.
//
// Reference: Diquigiovanni, Fontana & Vantini (2022), Conformal Prediction
// Bands for Multivariate Functional Data, section 3, for finitely many targets
// and scores of CQR.
type Joint struct {
	Targets int
	// Scale of each target, in its units; nil stands for each row's own width
	// hi−lo.
	Scale  []float64
	Scores []float64
}

// NewJoint computes the scores from the predicted quantiles and the targets of
// the calibration rows, n×targets and row-major. scale has a positive entry
// for each target, in its units; nil divides each score by upper−lower of its
// own row, the width that the head predicts. It panics if the lengths do not
// fit; a NaN, a scale that is not positive and finite, or, without scales,
// quantiles that cross are errors.
func NewJoint(lower, upper, y []float64, targets int, scale []float64) (Joint, error) {
	if targets < 1 || len(lower) != len(y) || len(upper) != len(y) || len(y)%targets != 0 || scale != nil && len(scale) != targets {
		panic("calibrate: quantiles, targets and scales differ in length")
	}
	for t, s := range scale {
		if !(s > 0) || math.IsInf(s, 0) {
			return Joint{}, fmt.Errorf("target %d has the scale %v, which must be positive", t, s)
		}
	}
	j := Joint{Targets: targets, Scale: slices.Clone(scale)}
	all, err := cqrScores(lower, upper, y)
	if err != nil {
		return Joint{}, err
	}
	joint := make([]float64, len(y)/targets)
	for i := range joint {
		joint[i] = math.Inf(-1)
		for t := range targets {
			c := i*targets + t
			if scale == nil && lower[c] > upper[c] {
				return Joint{}, fmt.Errorf("calibration row %d has an interval from %v to %v", i, lower[c], upper[c])
			}
			joint[i] = max(joint[i], scaled(all[c], j.scale(t, lower[c], upper[c])))
		}
	}
	j.Scores, err = sortedCopy(joint)
	return j, err
}

func (j Joint) scale(t int, lo, hi float64) float64 {
	if j.Scale == nil {
		return hi - lo
	}
	return j.Scale[t]
}

// Margin is what the ends of every target's interval move outwards, in scales
// of the target, so that the box misses a target with probability at most α:
// the ⌈(1−α)(n+1)⌉-th smallest score, +Inf where n is too small for α.
func (j Joint) Margin(alpha float64) float64 {
	return upper(j.Scores, forgive(alpha))
}

// Box is the box at α of a row whose predicted quantiles are lo and hi, one
// for each target, rounded inwards. An interval that a negative margin would turn inside out
// becomes its midpoint, which can only add coverage.
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
		lower[t], upper[t] = limit.interval(lo[t], hi[t], j.scale(t, lo[t], hi[t]))
	}
	return lower, upper
}

// ScoreScales are scales for NewJoint, one for each target: 1.4826 times the
// median absolute deviation of the CQR scores from their median, over rows
// that are neither calibration rows nor predicted for; rows that the heads were
// fitted on will do. lower, upper and y are n×targets, row-major. It panics if
// the lengths do not fit; no rows, a NaN, or scores of a target of which half
// are equal are errors.
func ScoreScales(lower, upper, y []float64, targets int) ([]float64, error) {
	if targets < 1 || len(lower) != len(y) || len(upper) != len(y) || len(y)%targets != 0 {
		panic("calibrate: quantiles and targets differ in length")
	}
	if len(y) == 0 {
		return nil, fmt.Errorf("scales of %d targets need rows", targets)
	}
	all, err := cqrScores(lower, upper, y)
	if err != nil {
		return nil, err
	}
	scales := make([]float64, targets)
	column := make([]float64, len(y)/targets)
	for t := range scales {
		for i := range column {
			column[i] = all[i*targets+t]
		}
		center := median(column)
		for i, s := range column {
			column[i] = math.Abs(s - center)
		}
		if scales[t] = 1.4826 * median(column); !(scales[t] > 0) || math.IsInf(scales[t], 0) {
			return nil, fmt.Errorf("the scores of target %d have the scale %v: half of them are equal, or infinite", t, scales[t])
		}
	}
	return scales, nil
}

// median sorts v.
func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// JointAt calibrates, from the calibration of each target on the same rows,
// the box of all their central intervals between the quantiles α/2 and 1−α/2,
// scaled by their own widths.
func JointAt(targets []QuantileCalibration, alpha float64) (Joint, error) {
	if len(targets) == 0 {
		return Joint{}, fmt.Errorf("a joint region needs a target")
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
		for i := range n {
			row := q.Grid[i*len(q.Levels) : (i+1)*len(q.Levels)]
			lo[i*t+k], hi[i*t+k] = q.Quantile(row, alpha/2), q.Quantile(row, 1-alpha/2)
			y[i*t+k] = float64(q.Y[i])
		}
	}
	return NewJoint(lo, hi, y, t, nil)
}
