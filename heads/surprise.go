package heads

import (
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// surprise maps a score to −log p, where p decreases strictly with the score. Between
// calibration scores log p is interpolated between their conformal p-values, which is
// conservative. Conformal p-values cannot go below 1/(n+1), so that all far rows would tie.
// Beyond the largest calibration score, p therefore follows a generalised Pareto distribution.
// That is an approximation of the tail, without a guaranteed false-alarm rate.
type surprise struct {
	calibrate.Conformal
	shape float64 // ξ ≥ 0; 0 is an exponential tail
	scale float64 // scale of the excess over the largest calibration score
}

const (
	// tailShare is the fraction of calibration scores that the tail is fitted to.
	tailShare = .1
	// heaviest limits the shape: a heavier tail has no variance, and so few scores cannot
	// estimate one.
	heaviest = .5
	// largestSurprise keeps sums finite.
	largestSurprise = 1e300
)

// newSurprise fits the tail by probability-weighted moments: Hosking & Wallis (1987),
// "Parameter and Quantile Estimation for the Generalized Pareto Distribution". A shape below
// 0, which means a bounded tail, becomes 0.
func newSurprise(c calibrate.Conformal) surprise {
	n := len(c.Scores)
	s := surprise{Conformal: c}
	m := min(max(int(tailShare*float64(n)), 2), n-1)
	largest := c.Scores[n-1]
	threshold := c.Scores[max(n-1-m, 0)]
	var mean, weighted float64
	for j, v := range c.Scores[n-m:] {
		mean += (v - threshold) / float64(m)
		if m > 1 {
			weighted += (v - threshold) * float64(m-1-j) / float64(m-1) / float64(m)
		}
	}
	s.scale = mean
	if d := mean - 2*weighted; m > 1 && d > 0 && 2-mean/d > 0 {
		// The excess over a higher threshold has the same shape.
		s.shape = min(2-mean/d, heaviest)
		s.scale = mean*(1-s.shape) + s.shape*(largest-threshold)
	}
	// Scores that are all equal, or not finite, determine no scale.
	if !(s.scale > 0) || math.IsInf(s.scale, 0) {
		s.shape, s.scale = 0, max(math.Abs(largest), 1)/(1<<24)
		if math.IsInf(s.scale, 0) {
			s.scale = 1
		}
	}
	return s
}

// minusLogP returns −log p of a score. It is NaN for NaN, and finite otherwise.
func (s surprise) minusLogP(score float64) float64 {
	n := len(s.Scores)
	if math.IsNaN(score) {
		return score
	}
	p := s.PValue(score)
	i, exact := slices.BinarySearch(s.Scores, score)
	switch {
	case exact || i == 0:
		return -math.Log(p)
	case i < n:
		low, high := s.Scores[i-1], s.Scores[i]
		logLow, logHigh := math.Log(s.PValue(low)), math.Log(s.PValue(high))
		if along := (score - low) / (high - low); along >= 0 && along <= 1 {
			return -logLow - along*(logHigh-logLow)
		}
		return -logHigh
	}
	excess := (score - s.Scores[n-1]) / s.scale
	if s.shape > 0 {
		excess = math.Log1p(s.shape*excess) / s.shape
	}
	if math.IsNaN(excess) {
		excess = 0
	}
	return min(excess-math.Log(s.PValue(s.Scores[n-1])), largestSurprise)
}

// surprises writes the computation of minusLogP as graph nodes, for scores n×parts: a part that is
// linear between calibration scores, and the logarithm of the excess. All parts share the
// nodes.
func surprises(parts []surprise, scores graph.Tensor) graph.Tensor {
	knots := make([][]float64, len(parts))
	for i, s := range parts {
		knots[i] = slices.Compact(slices.Clone(s.Scores))
	}
	at, width := scores.Reshape(-1, int64(len(parts)), 1).CountAbove(knots...)
	var slope, start, unit, from, share []float64
	heavy := false
	for i, s := range parts {
		last := len(knots[i]) - 1
		least := -math.Log(s.PValue(knots[i][last]))
		// The tables are indexed by the number of knots above the score: 0 beyond the last knot,
		// and all before the first, where the surprise is 0.
		slopes, starts := make([]float64, width), make([]float64, width)
		if s.shape > 0 {
			heavy = true
			starts[0] = least
			unit, from, share = append(unit, s.shape/s.scale), append(from, 1-knots[i][last]*s.shape/s.scale), append(share, 1/s.shape)
		} else {
			slopes[0], starts[0] = 1/s.scale, least-knots[i][last]/s.scale
			unit, from, share = append(unit, 0), append(from, 1), append(share, 0)
		}
		for k := range last {
			low, high := -math.Log(s.PValue(knots[i][k])), -math.Log(s.PValue(knots[i][k+1]))
			slopes[last-k] = (high - low) / (knots[i][k+1] - knots[i][k])
			starts[last-k] = low - slopes[last-k]*knots[i][k]
		}
		slope, start = append(slope, slopes...), append(start, starts...)
	}
	y := at.Lookup(slope).Mul(scores).Add(at.Lookup(start))
	if heavy {
		y = y.Add(scores.Mul(unit).Add(from).Max(1.).Log().Mul(share))
	}
	return y
}
