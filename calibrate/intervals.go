package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// IntervalOptions chooses intervals.
type IntervalOptions struct {
	// Side, if not empty, asks for intervals with one end: "lower" for [end, +Inf), "upper"
	// for (−Inf, end]. They miss on that side with probability at most α.
	Side string
	// Joint asks for intervals that cover all targets of a row at once with probability 1−α,
	// instead of each target separately.
	Joint bool
	// Smoothed makes the coverage exact, ⌈(1−α)(n+1)⌉/(n+1), even if scores tie. They tie if
	// targets or quantiles take few values, such as counts, grades or the leaves of trees. A τ
	// in (0,1) decides whether targets whose score equals the margin are covered, so the
	// interval is either closed or open. τ is drawn for each row and target, or joint box, by
	// Seed and the row's number. Without ties, open and closed intervals cover alike.
	//
	// An open end moves inwards to the next number whose score is below the margin, so the
	// interval covers y if lower ≤ y ≤ upper in either case. An interval with lower > upper is
	// empty and does not become its midpoint. The guarantee is over draws of τ too: it does
	// not hold for an interval that is drawn again, or chosen among several draws.
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
	//   - "cqr-m": starts from the same quantiles, and moves each end by the same fraction of
	//     its distance from the median, so skewed forecasts stay skewed. If quantiles are
	//     equal, a distance is 0, and a target beyond that end scores +Inf. If a fraction α of
	//     the calibration rows scores +Inf, intervals are infinite.
	//   - "cir": starts from the two quantiles that are nearest to each other among those
	//     whose levels differ by 1−α, and moves both ends by the same amount.
	//   - "rcp": starts like "cqr", but first moves both ends outwards by the quantile 1−α of
	//     the "cqr" score, which a forest predicts from the row's quantiles. Half of the
	//     calibration rows, drawn by Seed, train the forest, and the other half calibrates.
	//     Intervals get wider where the interval model is overconfident, and narrower where it
	//     is underconfident.
	//
	// A score reads only the row's quantiles and its target. If rows are exchangeable, the
	// scores of the calibration rows and of a new row are exchangeable too. With probability
	// at least 1−α, the new score is then among the ⌈(1−α)(n+1)⌉ smallest, so the guarantee
	// holds for every score. Scores differ in the width of intervals and in the rows that are
	// missed.
	//
	// References: Romano, Patterson & Candès (2019), Conformalized Quantile Regression; Sesia
	// & Candès (2020), A Comparison of Some Conformal Quantile Regression Methods (CQR-r, and
	// CQR-m of Kivaranovic, Johnson & Leeb, 2020); Guo, Luo & Zhou (2026), Fast Conformal
	// Prediction Using Conditional Interquantile Intervals, whose intervals grow by whole
	// steps between levels; Plassier et al. (2025), Rectifying Conformity Scores for Better
	// Conditional Coverage, with the adjustment t + v, whose quantiles are learned from
	// inputs.
	Score string
}

// Intervals makes the calibrated intervals of one or several targets.
type Intervals struct {
	options    IntervalOptions
	alpha      float64
	targets    []QuantileCalibration
	rectifiers []rectifier // one for each target
	boxes      []jointBox  // if intervals have two ends: one for each target or, if joint, one for all targets
	oneSided   []oneSided  // if intervals have one end: one for each target
}

// NewIntervals calibrates intervals that miss with probability at most α. Intervals with two
// ends start from the quantiles of IntervalOptions.Score, and one-sided ones from the quantile
// α or 1−α. All targets must have the same calibration rows, and there may be none.
//
// The score of a calibration row is how far its target lies outside. The margin is the
// ⌈(1−α)(n+1)⌉-th smallest score of n calibration rows, or +Inf if n is too small for α. Ends
// move outwards by the margin. Scores are rounded up and ends inwards, so an interval contains
// exactly the targets whose score is at most the margin. If a negative margin would make the
// ends cross, both become the midpoint, which can only add coverage.
func NewIntervals(targets []QuantileCalibration, o IntervalOptions, alpha float64) (v Intervals, err error) {
	if err := checkLevel("α", alpha); err != nil {
		return v, err
	}
	for t, q := range targets {
		if len(q.Y) != len(targets[0].Y) {
			return v, fmt.Errorf("target %d has %d calibration rows and target 0 has %d", t, len(q.Y), len(targets[0].Y))
		}
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
	}
	v = Intervals{options: o, alpha: alpha}
	if v.targets, v.rectifiers, err = o.fitRectifiers(targets, alpha); err != nil {
		return v, err
	}
	for t, q := range v.targets {
		if o.Side != "" {
			one, err := q.calibrateSide(o.Side, alpha)
			if err != nil {
				return v, err
			}
			v.oneSided = append(v.oneSided, one)
			continue
		}
		if !o.Joint {
			one, err := o.calibrateBox(v.targets[t:t+1], alpha, v.rectifiers[t:t+1])
			if err != nil {
				return v, err
			}
			v.boxes = append(v.boxes, one)
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

// Predict writes the ends of each target's interval for one row. quantiles has the predicted
// quantiles of each target at its levels. row is the number of the row, which chooses the
// random numbers of smoothed ends. Smoothed ends are float32 numbers, as targets are. Ends are
// infinite if there are too few calibration rows for α.
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
		end := v.oneSided[t].bound(q.quantile(quantiles[t], sidedLevel(v.options.Side, v.alpha)), v.alpha, tau(t))
		if v.options.Side == conformal.Lower {
			lower[t] = end
		} else {
			upper[t] = end
		}
	}
	for b, box := range v.boxes {
		targets := len(v.targets) / len(v.boxes) // number of targets in a box
		box.ends(lower[b*targets:], upper[b*targets:], base[b*targets:(b+1)*targets], v.alpha, tau(b))
	}
	if v.options.Smoothed {
		for t := range lower {
			lower[t], upper[t] = inward(lower[t], upper[t])
		}
	}
}

// inward moves ends to the next float32 numbers inside. No target is lost, because targets are
// float32. An open end stays different from the closed one when it is written with as many
// digits as a float32 has.
func inward(lower, upper float64) (float64, float64) {
	a, b := float32(lower), float32(upper)
	if float64(a) < lower {
		a = math.Nextafter32(a, float32(math.Inf(1)))
	}
	if float64(b) > upper {
		b = math.Nextafter32(b, float32(math.Inf(-1)))
	}
	return float64(a), float64(b)
}
