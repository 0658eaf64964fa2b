package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// IntervalOptions selects the kind of prediction intervals.
type IntervalOptions struct {
	// Side selects intervals with one end: "lower" for [end, +Inf), "upper" for (−Inf,
	// end]. They miss with probability at most α. If Side is empty, intervals have two
	// ends.
	Side string
	// Joint makes the intervals of a row cover all targets at once with probability 1−α.
	// Otherwise they cover each target separately.
	Joint bool
	// Smoothed makes the coverage exactly ⌈(1−α)(n+1)⌉/(n+1) for n calibration rows, even
	// if scores tie. Scores tie if targets or quantiles take few values, for example
	// counts, grades or the leaves of trees. Each row and target, or each row for joint
	// boxes, gets a τ in [0,1) that depends on Seed and the row number. This τ decides
	// whether the interval is closed or open. A closed interval covers the targets whose
	// score equals the margin, and an open one does not. Without ties, both have the same
	// coverage.
	//
	// An open end is the outermost number whose score is below the margin, so every
	// interval covers y if lower ≤ y ≤ upper. If lower > upper, the interval is empty. The
	// guarantee averages over draws of τ. It does not hold if an interval is drawn again,
	// or chosen among several draws.
	//
	// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World,
	// section 2.2, smoothed conformal predictors.
	Smoothed bool
	Seed     uint64
	// Score names the nonconformity score of intervals with two ends. Empty stands for "cqr".
	// Each score starts from two quantiles and widens or narrows the interval between them
	// until it covers the calibration rows often enough:
	//
	//   - "cqr": starts from the quantiles α/2 and 1−α/2, and moves both ends of all rows by
	//     the same amount. With Joint, it moves them by the same fraction of the width.
	//   - "cqr-r": starts from the same quantiles, and moves both ends by the same fraction of
	//     the width between them.
	//   - "cqr-m": starts from the same quantiles, and moves each end by the same fraction
	//     of its distance from the median, so skewed forecasts stay skewed. If an end
	//     equals the median, a target beyond this end has the score +Inf. If at least a
	//     fraction α of the calibration rows has the score +Inf, intervals are infinite.
	//   - "cir": starts from the narrowest pair of quantiles whose levels differ by 1−α, and
	//     moves both ends as "cqr" does.
	//   - "rcp": starts like "cqr", but first moves both ends outwards by an estimate of
	//     the row's own quantile 1−α of the "cqr" score. A forest estimates it from the
	//     row's quantiles. Half of the calibration rows, drawn by Seed, train the forest,
	//     and the other half calibrates. Intervals become wider for rows on which the
	//     interval model is overconfident, and narrower for rows on which it is
	//     underconfident.
	//   - "ridge": starts from the median, and corrects it by a ridge regression on the
	//     calibration rows. Errors are fractions of the width between the quantiles α/2 and
	//     1−α/2. Prediction is full conformal: for each candidate value of a new target, the
	//     regression learns from the new row too. All rows teach and calibrate. A row takes
	//     time that grows with the number of calibration rows.
	//
	// With "ridge", scores depend on all rows in the same way. With others, a score depends
	// only on the row's quantiles and its target. If rows are exchangeable, the scores of the
	// calibration rows and of a new row are exchangeable too. With
	// probability at least 1−α, the new score is then among the ⌈(1−α)(n+1)⌉ smallest of
	// all scores. The guarantee therefore holds for every kind of score. Scores differ in
	// the width of intervals and in the rows that they miss.
	//
	// References: Romano, Patterson & Candès (2019), Conformalized Quantile Regression;
	// Sesia & Candès (2020), A Comparison of Some Conformal Quantile Regression Methods
	// (CQR-r, and CQR-m of Kivaranovic, Johnson & Leeb, 2020); Guo, Luo & Zhou (2026), Fast
	// Conformal Prediction Using Conditional Interquantile Intervals, which widens
	// intervals by whole steps between levels; Plassier et al. (2025), Rectifying
	// Conformity Scores for Better Conditional Coverage, with the adjustment t + v and
	// quantiles that are learned from inputs.
	Score string
}

// Intervals computes calibrated intervals for one or several targets.
type Intervals struct {
	options    IntervalOptions
	alpha      float64
	targets    []QuantileCalibration
	rectifiers []rectifier // one for each target
	boxes      []jointBox  // if intervals have two ends: one for each target or, if joint, one for all targets
	ridges     []ridge     // with the score "ridge": one for each target
	oneSided   []oneSided  // if intervals have one end: one for each target
	weight     float64     // weight of the row to predict, if calibration rows have weights
}

// NewIntervals calibrates intervals that miss with probability at most α. Intervals with
// two ends start from the quantiles of IntervalOptions.Score, and one-sided intervals from
// the quantile α or 1−α. All targets must have the same calibration rows. Without
// calibration rows, intervals are infinite.
//
// The score of a calibration row is the distance of its target from the uncalibrated
// interval, in units that IntervalOptions.Score selects. It is negative inside. The margin
// is the ⌈(1−α)(n+1)⌉-th smallest score of n calibration rows, or +Inf if n is too small
// for α. Ends move outwards by the margin, in the same units. If a negative margin would
// make the ends cross, both become the midpoint, which can only increase coverage.
//
// Scores are rounded up and ends are rounded inwards, so, unless the ends would cross, an
// interval contains exactly the targets whose score is at most the margin.
func NewIntervals(targets []QuantileCalibration, o IntervalOptions, alpha float64) (v Intervals, err error) {
	if err := checkLevel("α", alpha); err != nil {
		return v, err
	}
	if err := checkTargets(targets); err != nil {
		return v, err
	}
	if o.Smoothed && slices.ContainsFunc(targets, func(q QuantileCalibration) bool { return q.Weights != nil }) {
		return v, errors.New("smoothed intervals cannot have weights: choose one of the two")
	}
	switch {
	case o.Side != "" && o.Side != conformal.Lower && o.Side != conformal.Upper:
		return v, fmt.Errorf("side %q is neither lower nor upper", o.Side)
	case o.Side != "" && o.Joint:
		return v, errors.New("a joint box has two ends: choose a side or a joint box")
	case o.Score != "" && !slices.Contains(conformal.IntervalScores(), o.Score):
		return v, fmt.Errorf("unknown interval score %q: choose one of %s", o.Score, strings.Join(conformal.IntervalScores(), ", "))
	case o.Side != "" && o.Score != "":
		return v, errors.New("intervals with one end have no choice of score: choose a side or a score")
	case o.Score == conformal.Ridge && (o.Joint || o.Smoothed || len(targets) > 0 && targets[0].Weights != nil):
		return v, errors.New("the interval score ridge cannot be joint, smoothed or weighted: choose another score")
	}
	v = Intervals{options: o, alpha: alpha, weight: math.Inf(1)}
	if v.targets, v.rectifiers, err = o.fitRectifiers(targets, alpha); err != nil {
		return v, err
	}
	for t, q := range v.targets {
		if o.Side != "" {
			calibrated, err := q.calibrateSide(o.Side, alpha)
			if err != nil {
				return v, err
			}
			v.oneSided = append(v.oneSided, calibrated)
			continue
		}
		if !o.Joint {
			calibrated, err := o.calibrateBox(v.targets[t:t+1], alpha, v.rectifiers[t:t+1])
			if err != nil {
				return v, err
			}
			v.boxes = append(v.boxes, calibrated)
		}
		if o.Score == conformal.Ridge {
			learned, err := o.newRidge(q, alpha)
			if err != nil {
				return v, err
			}
			v.ridges = append(v.ridges, learned)
		}
	}
	if o.Joint {
		all, err := o.calibrateBox(v.targets, alpha, v.rectifiers)
		if err != nil {
			return v, err
		}
		v.boxes = []jointBox{all}
	}
	return v, nil
}

// checkTargets returns an error unless all targets have the same calibration rows.
func checkTargets(targets []QuantileCalibration) error {
	for t, q := range targets {
		if len(q.Y) != len(targets[0].Y) {
			return fmt.Errorf("target %d has %d calibration rows and target 0 has %d", t, len(q.Y), len(targets[0].Y))
		}
		if !slices.Equal(q.Weights, targets[0].Weights) {
			return fmt.Errorf("all targets need the same weights of calibration rows, but targets %d and 0 differ", t)
		}
	}
	return nil
}

// WithWeight returns the intervals for a row with this weight: see WeightedConformal. Without
// a call of WithWeight, the weight counts as +Inf and intervals are infinite. WithWeight has no
// effect if the calibration rows have no weights.
func (v Intervals) WithWeight(weight float64) Intervals {
	v.weight = weight
	return v
}

// Predict writes the ends of each target's interval for one row. quantiles[t] holds the
// predicted quantiles of target t at its levels. row is the row number, which selects the
// random numbers of smoothed intervals. Smoothed ends are rounded to float32, like targets.
// Ends are infinite if there are too few calibration rows for α.
func (v Intervals) Predict(lower, upper []float64, quantiles [][]float32, row uint64) {
	tau := func(target int) float64 {
		if !v.options.Smoothed {
			return 0
		}
		return uniform(v.options.Seed, row*uint64(len(v.targets))+uint64(target), tauStream)
	}
	var buffer [4]baseInterval // avoids an allocation for up to four targets
	base := buffer[:0]
	for t, q := range v.targets {
		lower[t], upper[t] = math.Inf(-1), math.Inf(1)
		if v.options.Side == "" {
			base = append(base, v.options.baseInterval(q, quantiles[t], v.alpha, v.rectifiers[t]))
			continue
		}
		end := v.oneSided[t].bound(q.quantile(quantiles[t], sidedLevel(v.options.Side, v.alpha)), v.alpha, tau(t), v.weight)
		if v.options.Side == conformal.Lower {
			lower[t] = end
		} else {
			upper[t] = end
		}
	}
	if v.ridges != nil {
		for t, r := range v.ridges {
			lower[t], upper[t] = r.ends(v.targets[t].ridgeRow(quantiles[t], base[t]))
		}
		return
	}
	for b, box := range v.boxes {
		targets := len(v.targets) / len(v.boxes) // number of targets in a box
		box.ends(lower[b*targets:], upper[b*targets:], base[b*targets:(b+1)*targets], v.alpha, tau(b), v.weight)
	}
	if v.options.Smoothed {
		for t := range lower {
			lower[t], upper[t] = roundInward(lower[t], upper[t])
		}
	}
}

// roundInward rounds the ends of an interval inwards to float32. The interval keeps all targets,
// because targets are float32. An open end still differs from a closed one when both are
// printed with the digits of a float32.
func roundInward(lower, upper float64) (float64, float64) {
	a, b := float32(lower), float32(upper)
	if float64(a) < lower {
		a = math.Nextafter32(a, float32(math.Inf(1)))
	}
	if float64(b) > upper {
		b = math.Nextafter32(b, float32(math.Inf(-1)))
	}
	return float64(a), float64(b)
}
