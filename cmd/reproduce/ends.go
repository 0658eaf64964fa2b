package main

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
)

// levelsOf are the two ends of central intervals.
func levelsOf(coverage float64) []float64 {
	low := math.Round((1-coverage)/2*1e9) / 1e9
	return []float64{low, 1 - low}
}

// ends are intervals of some rows, and what came true.
type ends struct{ lower, upper, y []float64 }

// endsOf predicts the intervals of rows between two levels.
func endsOf(f heads.QuantileRegressor, x blas32.General, y []float64, levels []float64) ends {
	q := f.Quantiles(x, levels)
	e := ends{y: y}
	for i := range q.Rows {
		e.lower, e.upper = append(e.lower, q.At(i, 0, 0)), append(e.upper, q.At(i, 0, 1))
	}
	return e
}

func (e ends) measure(alpha, spread float64) measured {
	return measured{
		PICP: calibrate.PICP(e.lower, e.upper, e.y), MPIW: calibrate.NMPIW(e.lower, e.upper, spread),
		Score: calibrate.IntervalScore(e.lower, e.upper, e.y, alpha) / spread,
	}
}

// closed is the share of targets in their intervals, ends included.
func (e ends) closed() float64 {
	inside := 0.
	for i, v := range e.y {
		inside += indicator(e.lower[i] <= v && v <= e.upper[i])
	}
	return inside / float64(len(e.y))
}

func (e ends) with(o ends) ends {
	return ends{slices.Concat(e.lower, o.lower), slices.Concat(e.upper, o.upper), slices.Concat(e.y, o.y)}
}

// conformalized are the intervals after calibration on those of other rows.
// They are closed: with ties, open ones would break the promise.
func (e ends) conformalized(cal ends, alpha, spread float64) (measured, error) {
	cqr, err := calibrate.NewCQR(cal.lower, cal.upper, cal.y)
	if err != nil {
		return measured{}, err
	}
	out := ends{make([]float64, len(e.y)), make([]float64, len(e.y)), e.y}
	for i := range e.y {
		out.lower[i], out.upper[i] = cqr.Interval(e.lower[i], e.upper[i], alpha)
	}
	m := out.measure(alpha, spread)
	m.PICP = out.closed()
	if math.IsInf(m.MPIW, 1) {
		m = measured{PICP: m.PICP, Unbounded: true}
	}
	return m, nil
}

// smoothed is the share of targets that smoothed intervals cover after
// calibration on those of other rows, and the share of those at which a draw
// decides.
func (e ends) smoothed(cal ends, alpha float64, seed uint64) (covered, tied float64, err error) {
	cqr, err := calibrate.NewCQR(cal.lower, cal.upper, cal.y)
	if err != nil {
		return 0, 0, err
	}
	share := func(tau func(row int) float64) float64 {
		out := ends{make([]float64, len(e.y)), make([]float64, len(e.y)), e.y}
		for i := range e.y {
			out.lower[i], out.upper[i] = cqr.SmoothedInterval(e.lower[i], e.upper[i], alpha, tau(i))
		}
		return out.closed()
	}
	covered = share(func(row int) float64 { return calibrate.Tau(seed, uint64(row)) })
	never, always := share(func(int) float64 { return 1 }), share(func(int) float64 { return 0 })
	return covered, always - never, nil
}

// interval are the ends between the quantiles α/2 and 1−α/2.
func interval(head *heads.SQR, x blas32.General, alpha float64) (lo, hi []float64) {
	e := endsOf(head, x, nil, []float64{alpha / 2, 1 - alpha/2})
	return e.lower, e.upper
}
