package calibrate

import (
	"math"
	"sort"
)

// threshold decides which scores are covered. Lower scores are covered. An equal score is
// covered unless the threshold is open.
//
// Scores are rounded up and the ends of intervals are rounded inwards. A target therefore
// lies within the end of an interval if and only if the score that calibration computes for
// it is covered. If both were rounded to the nearest number, a target whose score equals
// the threshold could lie outside.
type threshold struct {
	score float64
	open  bool
}

func (t threshold) covers(score float64) bool {
	return score < t.score || !t.open && score == t.score
}

// upperEnd returns the largest y that is covered if the score of y is divideUp(subtractUp(y,
// quantile), scale).
func (t threshold) upperEnd(quantile, scale float64) float64 {
	switch {
	case math.IsNaN(quantile) || math.IsNaN(scale):
		return math.NaN()
	case scale == 0 && t.covers(0) && (t.open || !math.IsInf(t.score, 1)):
		return quantile
	case scale == 0 && !math.IsInf(t.score, 0):
		return math.Nextafter(quantile, math.Inf(-1))
	case math.IsInf(t.score, 0):
		return t.score
	}
	s := t.score
	if t.open {
		s = math.Nextafter(s, math.Inf(-1))
	}
	if s != 0 {
		s = multiplyDown(s, scale)
	}
	return 0 - subtractUp(-quantile, s) // quantile + s, rounded down, and never −0
}

// lowerEnd returns the smallest y that is covered if the score of y is
// divideUp(subtractUp(quantile, y), scale).
func (t threshold) lowerEnd(quantile, scale float64) float64 {
	return 0 - t.upperEnd(-quantile, scale)
}

// subtractUp returns a−b, rounded up. The rounding error of the difference is computed
// exactly.
//
// Reference: Knuth (1997), The Art of Computer Programming, volume 2, section 4.2.2, theorem
// B.
func subtractUp(a, b float64) float64 {
	d := a - b
	v := d - a
	if (a-(d-v))-(b+v) > 0 {
		return math.Nextafter(d, math.Inf(1))
	}
	return d
}

// divideUp returns score/scale, rounded up. It is 0 if the score is 0, and infinite for other
// scores if the scale is 0.
func divideUp(score, scale float64) float64 {
	if score == 0 {
		return 0
	}
	d := score / scale
	if math.FMA(-d, scale, score) > 0 || d == 0 && score > 0 {
		return math.Nextafter(d, math.Inf(1))
	}
	return d
}

// multiplyDown returns score·scale, rounded down.
func multiplyDown(score, scale float64) float64 {
	p := float64(score * scale) // the conversion prevents a fused multiply-add
	if math.FMA(score, scale, -p) < 0 || p == 0 && score < 0 {
		return math.Nextafter(p, math.Inf(-1))
	}
	return p
}

// countTies returns the number of sorted scores below s and the number equal to s.
func countTies(sorted []float64, s float64) (below, equal int) {
	below = sort.SearchFloat64s(sorted, s)
	return below, sort.Search(len(sorted)-below, func(i int) bool { return sorted[below+i] > s })
}
