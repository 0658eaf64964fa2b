package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Distribution is the conformal predictive distribution of one row. It comes from a split
// conformal predictive system, whose conformity scores increase strictly with the target.
//
// Suppose that l of the n calibration rows have a lower score than y, and e rows have an equal
// score. The distribution function at y is
//
//	Q(y, τ) = (l + τ·(e+1)) / (n+1),  τ in [0,1].
//
// Q is fuzzy: it lies between Q(y, 0) and Q(y, 1), which differ by 1/(n+1) without ties. A
// fixed τ selects one function: τ=1/2 gives the middle of the range, and 0 and 1 give its
// conservative ends. Suppose that τ is drawn uniformly for each row, and that the calibration
// rows and the new row are exchangeable. Then Q(Y, τ) at the true target Y is uniform on
// [0,1], even with ties. Hence P(Y ≤ Quantile(p, 0)) ≥ p and P(Y < Quantile(p, 1)) ≤ p for
// every level p.
//
// References: Vovk, Shen, Manokhin & Xie (2019), Nonparametric Predictive Distributions Based
// on Conformal Prediction; Vovk, Petej, Nouretdinov, Manokhin & Gammerman (2020),
// Computationally Efficient Versions of Conformal Predictive Distributions, section 4.
type Distribution struct {
	scores      []float64 // scores of the calibration rows, in increasing order
	calibration QuantileCalibration
	row         []float32 // predicted quantiles of the row
}

// CDF returns Q(y, τ), or NaN if y is NaN. It panics if τ is not in [0,1].
func (d Distribution) CDF(y, tau float64) float64 {
	checkTau(tau)
	if math.IsNaN(y) {
		return y
	}
	s := d.calibration.levelOf(d.row, y)
	lower, equal := countTies(d.scores, s)
	return (float64(lower) + tau*float64(equal+1)) / float64(len(d.scores)+1)
}

// Quantile returns the infimum of the targets y for which Q(y, τ) is at least level. It has
// the ⌈level·(n+1)−τ⌉-th smallest score of n calibration rows. If there is no such score,
// Quantile returns −Inf or +Inf. With τ=0, a target is at most Quantile with probability at
// least level. With τ=1, a target is less than Quantile with probability at most level.
// Quantile panics unless level and τ are in [0,1].
func (d Distribution) Quantile(level, tau float64) float64 {
	checkTau(tau)
	if !(level >= 0 && level <= 1) {
		panic(fmt.Sprintf("calibrate: quantile level %v is not between 0 and 1", level))
	}
	switch k := math.Ceil(level*float64(len(d.scores)+1)*(1-hypothesis.Slack) - tau); {
	case k < 1:
		return math.Inf(-1)
	case int(k) > len(d.scores):
		return math.Inf(1)
	default:
		return d.calibration.targetOf(d.row, d.scores[int(k)-1])
	}
}

// interpolatedQuantile returns a quantile without jumps and infinities. The i-th smallest of n
// calibration scores has the level i/(n+1). The quantile is linear between these levels and
// constant beyond the first and the last. Within the range of the scores, it lies between
// Quantile(level, 1) and Quantile(level, 0). It has no guarantee. Without calibration rows, it
// is NaN.
func (d Distribution) interpolatedQuantile(level float64) float64 {
	n := len(d.scores)
	if n == 0 || math.IsNaN(level) {
		return math.NaN()
	}
	position := min(max(level*float64(n+1)-1, 0), float64(n-1))
	i := int(position)
	lo := d.calibration.targetOf(d.row, d.scores[i])
	if w := position - float64(i); w > 0 {
		return lo + w*(d.calibration.targetOf(d.row, d.scores[i+1])-lo)
	}
	return lo
}

func checkTau(tau float64) {
	if !(tau >= 0 && tau <= 1) {
		panic(fmt.Sprintf("calibrate: τ %v is not between 0 and 1", tau))
	}
}
