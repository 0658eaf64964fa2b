package heads

import (
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// surprise maps a score to −log p, where p is a p-value. Above the smallest calibration
// score, p strictly decreases as the score grows. Below it, p is 1. Between two calibration
// scores, log p is interpolated linearly between their conformal p-values. This is
// conservative.
//
// Conformal p-values of n calibration scores cannot be below 1/(n+1). All distant rows
// would therefore get the same p. To avoid this, p follows a generalised Pareto
// distribution beyond the largest calibration score. This approximation of the tail does
// not guarantee a false-alarm rate.
type surprise struct {
	calibrate.Conformal
	shape float64 // shape ξ ≥ 0 of the tail; 0 means an exponential tail
	scale float64 // scale of the tail beyond the largest calibration score
}

const (
	// tailFraction is the fraction of calibration scores that the tail is fitted to.
	tailFraction = .1
	// maxShape is the largest shape of the tail. A tail with a larger shape has infinite
	// variance. The few scores in a tail cannot estimate such a shape.
	maxShape = .5
	// largestSurprise limits a surprise, so that sums of surprises are finite.
	largestSurprise = 1e300
)

// newSurprise fits the tail by probability-weighted moments: Hosking & Wallis (1987),
// "Parameter and Quantile Estimation for the Generalized Pareto Distribution". It replaces
// an estimated shape below 0, which would mean a bounded tail, by 0.
func newSurprise(c calibrate.Conformal) surprise {
	n := len(c.Scores)
	s := surprise{Conformal: c}
	m := min(max(int(tailFraction*float64(n)), 2), n-1)
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
		// The fit is for the excess over threshold. The excess over a higher threshold has
		// the same shape and this scale.
		s.shape = min(2-mean/d, maxShape)
		s.scale = mean*(1-s.shape) + s.shape*(largest-threshold)
	}
	// If all scores are equal, or some are not finite, they do not determine a scale.
	if !(s.scale > 0) || math.IsInf(s.scale, 0) {
		s.shape, s.scale = 0, max(math.Abs(largest), 1)/(1<<24)
		if math.IsInf(s.scale, 0) {
			s.scale = 1
		}
	}
	return s
}

// minusLogP returns −log p of a score. The result is NaN if score is NaN, and otherwise
// finite.
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
		if fraction := (score - low) / (high - low); fraction >= 0 && fraction <= 1 {
			return -logLow - fraction*(logHigh-logLow)
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

// surprises adds graph nodes that compute minusLogP for scores, an n×parts tensor. The
// result is the sum of a function that is linear between calibration scores, and of the
// logarithm of the excess. All parts share the nodes.
func surprises(parts []surprise, scores graph.Tensor) graph.Tensor {
	knots := make([][]float64, len(parts))
	for i, s := range parts {
		knots[i] = slices.Compact(slices.Clone(s.Scores))
	}
	at, width := scores.Reshape(-1, int64(len(parts)), 1).CountAbove(knots...)
	var slope, start, logSlope, logStart, logFactor []float64
	hasHeavyTail := false
	for i, s := range parts {
		last := len(knots[i]) - 1
		least := -math.Log(s.PValue(knots[i][last]))
		// The tables are indexed by the number of knots above the score. Index 0 is beyond
		// the last knot. The largest index is before the first knot, where the surprise is
		// 0.
		slopes, starts := make([]float64, width), make([]float64, width)
		if s.shape > 0 {
			hasHeavyTail = true
			starts[0] = least
			logSlope, logStart, logFactor = append(logSlope, s.shape/s.scale), append(logStart, 1-knots[i][last]*s.shape/s.scale), append(logFactor, 1/s.shape)
		} else {
			slopes[0], starts[0] = 1/s.scale, least-knots[i][last]/s.scale
			logSlope, logStart, logFactor = append(logSlope, 0), append(logStart, 1), append(logFactor, 0)
		}
		for k := range last {
			low, high := -math.Log(s.PValue(knots[i][k])), -math.Log(s.PValue(knots[i][k+1]))
			slopes[last-k] = (high - low) / (knots[i][k+1] - knots[i][k])
			starts[last-k] = low - slopes[last-k]*knots[i][k]
		}
		slope, start = append(slope, slopes...), append(start, starts...)
	}
	y := at.Lookup(slope).Mul(scores).Add(at.Lookup(start))
	if hasHeavyTail {
		y = y.Add(scores.Mul(logSlope).Add(logStart).Max(1.).Log().Mul(logFactor))
	}
	return y
}
