package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// IntervalOptions chooses intervals.
type IntervalOptions struct {
	// Side, if not empty, asks for intervals with one end, which miss on that side
	// with probability at most α.
	Side Side
	// Joint asks for intervals that cover all targets of a row at once with
	// probability 1−α, in place of each on its own.
	Joint bool
	// Smoothed covers no more often than is promised, as CQR.Interval says, with a τ
	// that is drawn for each row and target, or joint box, by Seed and the row's
	// number.
	Smoothed bool
	Seed     uint64
}

// Intervals are the calibrated intervals of one target or several.
type Intervals struct {
	o       IntervalOptions
	alpha   float64
	targets []QuantileCalibration
	cqr     []CQR      // by target, for intervals with two ends
	sided   []oneSided // by target, for those with one
	joint   joint      // for a box
}

// NewIntervals calibrates intervals that miss with probability at most α, between
// the quantiles α/2 and 1−α/2 or, with one end, beyond α or 1−α. All targets
// are of the same calibration rows, of which there may be none.
func NewIntervals(targets []QuantileCalibration, o IntervalOptions, alpha float64) (v Intervals, err error) {
	switch {
	case o.Side != "" && o.Side != Lower && o.Side != Upper:
		return v, fmt.Errorf("side %q is neither lower nor upper", o.Side)
	case o.Side != "" && o.Joint:
		return v, errors.New("a joint box has both sides: ask for a side or for a joint box")
	}
	v = Intervals{o: o, alpha: alpha, targets: targets}
	if o.Joint {
		v.joint, err = jointOf(targets, alpha)
		return v, err
	}
	for _, q := range targets {
		if o.Side != "" {
			one, err := q.side(o.Side, alpha)
			if err != nil {
				return v, err
			}
			v.sided = append(v.sided, one)
			continue
		}
		cqr, err := q.central(alpha)
		if err != nil {
			return v, err
		}
		v.cqr = append(v.cqr, cqr)
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
	for t, q := range v.targets {
		lower[t], upper[t] = math.Inf(-1), math.Inf(1)
		switch v.o.Side {
		case Lower:
			lower[t] = v.sided[t].bound(q.Quantile(quantiles[t], Lower.level(v.alpha)), v.alpha, tau(t))
		case Upper:
			upper[t] = v.sided[t].bound(q.Quantile(quantiles[t], Upper.level(v.alpha)), v.alpha, tau(t))
		default:
			lower[t], upper[t] = q.Quantile(quantiles[t], v.alpha/2), q.Quantile(quantiles[t], 1-v.alpha/2)
		}
		if v.cqr != nil {
			lower[t], upper[t] = v.cqr[t].Interval(lower[t], upper[t], v.alpha, tau(t))
		}
	}
	if v.o.Joint {
		lo, hi := v.joint.box(lower, upper, v.alpha, tau(0))
		copy(lower, lo)
		copy(upper, hi)
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
