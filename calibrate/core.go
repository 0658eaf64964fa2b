package calibrate

import "github.com/attach-uncertainty/attach/internal/fitting/conformal"

// core is the interval of quantiles that a row's calibrated interval grows from or
// shrinks into, by below and above for a unit of the score.
type core struct{ lo, hi, below, above float64 }

// score is how far a target lies outside the core, negative within, rounded up.
func (c core) score(y float64) float64 {
	return max(scaled(minusUp(c.lo, y), c.below), scaled(minusUp(y, c.hi), c.above))
}

// core is that of a row of quantiles, which knows nothing of the row's target. By
// what the rectifier expects of the row, it is moved at once; one that this would turn
// inside out becomes its midpoint.
func (o IntervalOptions) core(q QuantileCalibration, row []float32, alpha float64, r rectifier) core {
	c := core{q.quantile(row, alpha/2), q.quantile(row, 1-alpha/2), 1, 1}
	if o.Score == conformal.CIR {
		c.lo, c.hi = q.narrowest(row, 1-alpha)
	}
	switch {
	case o.Score == conformal.CQRM:
		median := q.quantile(row, .5)
		c.below, c.above = median-c.lo, c.hi-median
	case o.Score == conformal.CQRR || o.Joint:
		c.below, c.above = c.hi-c.lo, c.hi-c.lo
	}
	if by := r.of(row); by != 0 {
		if c.lo, c.hi = c.lo-by, c.hi+by; c.lo > c.hi {
			c.lo += (c.hi - c.lo) / 2
			c.hi = c.lo
		}
	}
	return c
}

// narrowest are the ends of the narrowest interval between quantiles whose levels
// differ by mass: the central one, unless another within Levels is narrower. The
// width is piecewise linear in the lower level, and least where either end is at one
// of Levels.
func (q QuantileCalibration) narrowest(row []float32, mass float64) (lo, hi float64) {
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
