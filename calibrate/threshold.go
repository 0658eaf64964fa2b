package calibrate

import (
	"math"
	"sort"
)

// threshold is the score that calibration rows set: what scores less is
// covered, and what scores the same is unless the threshold is open.
type threshold struct {
	score float64
	open  bool
}

func (t threshold) covers(score float64) bool {
	return score < t.score || !t.open && score == t.score
}

// upperEnd is the largest y that is covered where the score of y is
// (y−quantile)/scale, 0 where y is the quantile. The sum of quantile and margin
// may be another number: it is rounded otherwise than scores are, and would
// lose targets that score as much as the threshold to the last bit.
func (t threshold) upperEnd(quantile, scale float64) float64 {
	covered := func(y float64) bool {
		s := y - quantile
		if s != 0 {
			s /= scale
		}
		return t.covers(s)
	}
	switch {
	case math.IsNaN(quantile) || math.IsNaN(scale):
		return math.NaN()
	case t.open && math.IsInf(t.score, 1) && scale == 0:
		return quantile
	case math.IsInf(t.score, 1) || covered(math.MaxFloat64):
		return math.Inf(1)
	case !covered(-math.MaxFloat64):
		return math.Inf(-1)
	}
	in, out := place(-math.MaxFloat64), place(math.MaxFloat64)
	// Nearly always the sum is right, or next to what is.
	near := place(quantile + t.score*scale)
	for _, at := range []uint64{near - 2, near - 1, near, near + 1, near + 2} {
		if at <= in || at >= out {
			continue
		}
		if covered(number(at)) {
			in = at
		} else {
			out = at
		}
	}
	for out-in > 1 {
		if mid := in + (out-in)/2; covered(number(mid)) {
			in = mid
		} else {
			out = mid
		}
	}
	return number(in)
}

// lowerEnd is the least y that is covered where its score is
// (quantile−y)/scale.
func (t threshold) lowerEnd(quantile, scale float64) float64 {
	return 0 - t.upperEnd(-quantile, scale) // which is never −0
}

// interval holds the y that are covered where the score of y is
// max(lo−y, y−hi)/scale. Where none is, lower exceeds upper.
func (t threshold) interval(lo, hi, scale float64) (lower, upper float64) {
	return t.lowerEnd(lo, scale), t.upperEnd(hi, scale)
}

// place numbers the floating-point numbers in their order.
func place(v float64) uint64 {
	b := math.Float64bits(v)
	if b&sign == 0 {
		return b | sign
	}
	return ^b
}

const sign = 1 << 63

// number is the inverse of place.
func number(place uint64) float64 {
	if place&sign != 0 {
		return math.Float64frombits(place &^ sign)
	}
	return math.Float64frombits(^place)
}

// ties counts the scores, which increase, below s and equal to it.
func ties(sorted []float64, s float64) (below, equal int) {
	below = sort.SearchFloat64s(sorted, s)
	return below, sort.Search(len(sorted)-below, func(i int) bool { return sorted[below+i] > s })
}
