package calibrate

import "github.com/attach-uncertainty/attach/internal/fitting/conformal"

// baseInterval is the interval between two predicted quantiles of a row, before
// calibration. A margin m moves its lower end down by m·lowerUnit and its upper end up by
// m·upperUnit.
type baseInterval struct{ lo, hi, lowerUnit, upperUnit float64 }

// score returns how far y lies outside the interval, in units of the end that y is beyond,
// and rounded up. It is negative if y lies inside.
func (c baseInterval) score(y float64) float64 {
	return max(divideUp(subtractUp(c.lo, y), c.lowerUnit), divideUp(subtractUp(y, c.hi), c.upperUnit))
}

// isFinite reports whether all quantiles from which the interval was made are finite.
func (c baseInterval) isFinite() bool { return isFinite(c.lo + c.hi + c.lowerUnit + c.upperUnit) }

// baseInterval returns the interval of a row before calibration, from the row's predicted
// quantiles. The rectifier moves both ends outwards by the same amount. If the ends would
// cross, both become the midpoint.
func (o IntervalOptions) baseInterval(q QuantileCalibration, row []float32, alpha float64, r rectifier) baseInterval {
	c := baseInterval{q.quantile(row, alpha/2), q.quantile(row, 1-alpha/2), 1, 1}
	if o.Score == conformal.CIR {
		c.lo, c.hi = q.narrowestInterval(row, 1-alpha)
	}
	switch {
	case o.Score == conformal.CQRM:
		median := q.quantile(row, .5)
		c.lowerUnit, c.upperUnit = median-c.lo, c.hi-median
	case o.Score == conformal.CQRR || o.Score == conformal.Ridge || o.Joint:
		c.lowerUnit, c.upperUnit = c.hi-c.lo, c.hi-c.lo
	}
	if shift := r.estimate(row); shift != 0 {
		if c.lo, c.hi = c.lo-shift, c.hi+shift; c.lo > c.hi {
			c.lo += (c.hi - c.lo) / 2
			c.hi = c.lo
		}
	}
	return c
}

// narrowestInterval returns the narrowest interval between two quantiles whose levels differ by
// mass. If no interval within Levels is narrower than the central one, it returns the
// central one. The width is piecewise linear in the lower level, so it is smallest if one
// of the ends is at one of Levels.
func (q QuantileCalibration) narrowestInterval(row []float32, mass float64) (lo, hi float64) {
	tail := (1 - mass) / 2
	lo, hi = q.quantile(row, tail), q.quantile(row, 1-tail)
	last := q.Levels[len(q.Levels)-1]
	for _, level := range q.Levels {
		for _, from := range [2]float64{level, level - mass} {
			if to := from + mass; from >= q.Levels[0] && to <= last {
				if a, b := q.quantile(row, from), q.quantile(row, to); b-a < hi-lo {
					lo, hi = a, b
				}
			}
		}
	}
	return lo, hi
}
