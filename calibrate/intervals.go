package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// IntervalOptions chooses intervals.
type IntervalOptions struct {
	// Side, if not empty, asks for intervals with one end, "lower", which is [end, +Inf),
	// or "upper", (−Inf, end], which miss on that side with probability at most α.
	Side string
	// Joint asks for intervals that cover all targets of a row at once with
	// probability 1−α, in place of each on its own.
	Joint bool
	// Smoothed covers no more often than is promised, ⌈(1−α)(n+1)⌉/(n+1), where scores
	// tie, as they do where targets or quantiles take few values, such as counts, grades
	// or the leaves of trees. A τ in (0,1), drawn for each row and target, or joint box,
	// by Seed and the row's number, decides whether targets that score exactly the margin
	// are covered: the interval is either closed or open, and without ties the two cover
	// alike. An open end is moved inwards to the next number whose score is less than the
	// margin, so that in either case the interval covers y if lower ≤ y ≤ upper. One with
	// lower > upper is empty, and does not become its midpoint. The promise is over draws
	// of τ too: an interval drawn again, or chosen among several draws, has none.
	// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random
	// World, section 2.2, smoothed conformal predictors.
	Smoothed bool
	Seed     uint64
	// Score names the score that calibrates intervals with two ends, "" being "cqr".
	// Of each, an interval begins between two quantiles and grows or shrinks by
	// what covers the calibration rows:
	//
	//   - "cqr": between the quantiles α/2 and 1−α/2, by the same at both ends of
	//     all rows, or where Joint by shares of the width;
	//   - "cqr-r": by the same share of that width;
	//   - "cqr-m": by the same share of each end's distance from the median, so that
	//     ends of skewed forecasts move by different amounts. Where that is 0, of
	//     quantiles that are equal, a target beyond scores +Inf, and with a
	//     share α of such calibration rows intervals are endless;
	//   - "cir": between those two quantiles whose levels differ by 1−α that are
	//     nearest to each other, by the same at both ends;
	//   - "rcp": from what "cqr" does, moved outwards by the quantile 1−α that the score of
	//     a row with such predicted quantiles has, which half of the calibration rows,
	//     drawn by Seed, teach a forest; by the same at both ends. The other half
	//     calibrates. Where the head is too sure intervals are wider, and where it is
	//     not sure enough narrower.
	//
	// What a score takes of a row besides its target is its quantiles alone. Scores
	// of the calibration rows and of a new row are thus exchangeable where rows are,
	// and with probability at least 1−α the new one is among the ⌈(1−α)(n+1)⌉ least:
	// all keep the promise. They differ in width, and in which rows miss.
	//
	// References: Romano, Patterson & Candès (2019), Conformalized Quantile Regression;
	// Sesia & Candès (2020), A Comparison of Some Conformal Quantile
	// Regression Methods (CQR-r, and CQR-m of Kivaranovic, Johnson & Leeb, 2020);
	// Guo, Luo & Zhou (2026), Fast Conformal Prediction Using Conditional Interquantile
	// Intervals, whose intervals grow by whole steps between levels; Plassier et al. (2025),
	// Rectifying Conformity Scores for Better Conditional Coverage, with the adjustment
	// t + v, whose quantiles are learnt of inputs.
	Score string
}

// Intervals are the calibrated intervals of one target or several.
type Intervals struct {
	o       IntervalOptions
	alpha   float64
	targets []QuantileCalibration
	by      []rectifier // by target
	boxes   []joint     // with two ends: of each target or, for a joint box, of all
	sided   []oneSided  // by target, for those with one
}

// NewIntervals calibrates intervals that miss with probability at most α, around
// quantiles that IntervalOptions.Score says or, with one end, beyond α or 1−α. All
// targets are of the same calibration rows, of which there may be none.
//
// Ends are moved outwards by a margin, the ⌈(1−α)(n+1)⌉-th smallest of the scores of n
// calibration rows, which is how far outside their targets are, +Inf where n is too
// small for α. Scores are rounded up, and ends inwards, so that an interval holds just
// the targets that score at most the margin. One that a negative margin would turn
// inside out becomes its midpoint, which can only add coverage.
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
		return v, errors.New("a joint box has both sides: ask for a side or for a joint box")
	case o.Score != "" && !slices.Contains(conformal.IntervalScores(), o.Score):
		return v, fmt.Errorf("score %q of intervals is none of cqr, cqr-r, cqr-m, cir and rcp", o.Score)
	case o.Side != "" && o.Score != "":
		return v, errors.New("intervals with one end have one score: ask for a side or for a score")
	}
	v = Intervals{o: o, alpha: alpha}
	if v.targets, v.by, err = o.rectifiers(targets, alpha); err != nil {
		return v, err
	}
	for t, q := range v.targets {
		if o.Side != "" {
			one, err := q.side(o.Side, alpha)
			if err != nil {
				return v, err
			}
			v.sided = append(v.sided, one)
			continue
		}
		if !o.Joint {
			one, err := o.jointOf(v.targets[t:t+1], alpha, v.by[t:t+1])
			if err != nil {
				return v, err
			}
			v.boxes = append(v.boxes, one)
		}
	}
	if o.Joint {
		all, err := o.jointOf(v.targets, alpha, v.by)
		if err != nil {
			return v, err
		}
		v.boxes = []joint{all}
	}
	return v, nil
}

// Predict writes the ends of each target's interval for a row, of which quantiles
// are those that are predicted for each target, at its levels. row numbers the row:
// it is what smoothed ends depend on, which are float32 numbers, as targets are.
// Ends are infinite where calibration rows are too few for α.
func (v Intervals) Predict(lower, upper []float64, quantiles [][]float32, row uint64) {
	tau := func(target int) float64 {
		if !v.o.Smoothed {
			return 0
		}
		return uniform(v.o.Seed, row*uint64(len(v.targets))+uint64(target), tauStream)
	}
	var few [4]core // of most rows, without an allocation
	cores := few[:0]
	for t, q := range v.targets {
		lower[t], upper[t] = math.Inf(-1), math.Inf(1)
		if v.o.Side == "" {
			cores = append(cores, v.o.core(q, quantiles[t], v.alpha, v.by[t]))
			continue
		}
		end := v.sided[t].bound(q.quantile(quantiles[t], sidedLevel(v.o.Side, v.alpha)), v.alpha, tau(t))
		if v.o.Side == conformal.Lower {
			lower[t] = end
		} else {
			upper[t] = end
		}
	}
	for b, box := range v.boxes {
		width := len(v.targets) / len(v.boxes) // one target, or all
		box.box(lower[b*width:], upper[b*width:], cores[b*width:(b+1)*width], v.alpha, tau(b))
	}
	if v.o.Smoothed {
		for t := range lower {
			lower[t], upper[t] = inward(lower[t], upper[t])
		}
	}
}

// inward moves ends to the next float32 numbers inside. Targets are float32,
// so that none is lost, and an open end stays apart from the closed one when
// it is written with as many digits as float32 has.
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
