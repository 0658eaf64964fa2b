package calibrate

import (
	"math"
	"sort"
)

// threshold is the score that calibration rows set: what scores less is
// covered, and what scores the same is unless the threshold is open.
//
// Scores are rounded up and ends of intervals down, so that a target lies
// within an end just if its score, as calibration computes it, is covered:
// rounded alike, targets whose score is the threshold to the last bit could lie
// beyond.
type threshold struct {
	score float64
	open  bool
}

func (t threshold) covers(score float64) bool {
	return score < t.score || !t.open && score == t.score
}

// upperEnd is the largest y that is covered where the score of y is
// scaled(minusUp(y, quantile), scale).
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
		s = timesDown(s, scale)
	}
	return 0 - minusUp(-quantile, s) // quantile + s rounded down, and never −0
}

// lowerEnd is the least y that is covered where its score is
// scaled(minusUp(quantile, y), scale).
func (t threshold) lowerEnd(quantile, scale float64) float64 {
	return 0 - t.upperEnd(-quantile, scale)
}

// minusUp is a−b, rounded up. The error of the difference is exact.
//
// Reference: Knuth (1997), The Art of Computer Programming, volume 2, section
// 4.2.2, theorem B.
func minusUp(a, b float64) float64 {
	d := a - b
	v := d - a
	if (a-(d-v))-(b+v) > 0 {
		return math.Nextafter(d, math.Inf(1))
	}
	return d
}

// scaled is score/scale, rounded up: 0 where the score is, and infinite for
// another where the scale is 0.
func scaled(score, scale float64) float64 {
	if score == 0 {
		return 0
	}
	d := score / scale
	if math.FMA(-d, scale, score) > 0 || d == 0 && score > 0 {
		return math.Nextafter(d, math.Inf(1))
	}
	return d
}

// timesDown is score·scale, rounded down.
func timesDown(score, scale float64) float64 {
	p := float64(score * scale) // the conversion keeps it from being fused
	if math.FMA(score, scale, -p) < 0 || p == 0 && score < 0 {
		return math.Nextafter(p, math.Inf(-1))
	}
	return p
}

// ties counts the scores, which increase, below s and equal to it.
func ties(sorted []float64, s float64) (below, equal int) {
	below = sort.SearchFloat64s(sorted, s)
	return below, sort.Search(len(sorted)-below, func(i int) bool { return sorted[below+i] > s })
}
