package calibrate

import (
	"fmt"
	"math"
	"sort"

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
// With QuantileCalibration.Weights, l and e are the total weights of these rows, n is that of all
// rows, and 1 is replaced by the weight of the row: see WithWeight. Q(Y, τ) is then uniform if
// weights are the true ratios of densities.
//
// References: Vovk, Shen, Manokhin & Xie (2019), Nonparametric Predictive Distributions Based
// on Conformal Prediction; Vovk, Petej, Nouretdinov, Manokhin & Gammerman (2020),
// Computationally Efficient Versions of Conformal Predictive Distributions, section 4; Jonkers,
// Van Wallendael, Duchateau & Van Hoecke (2024), Conformal Predictive Systems Under Covariate
// Shift, for weights.
type Distribution struct {
	scores      []float64 // scores of the calibration rows, in increasing order
	calibration QuantileCalibration
	row         []float32 // predicted quantiles of the row
	// before[k] is the total weight of the k lowest scores, and weight that of the row, both
	// in units of the largest weight. before is nil without weights.
	before []float64
	weight float64
	unit   float64
}

// WithWeight returns the distribution of a row with this weight: see WeightedConformal. Without a
// call of WithWeight, the weight counts as +Inf, and quantiles are infinite. It has no effect if
// the calibration rows have no weights. It panics if the weight is negative.
func (d Distribution) WithWeight(weight float64) Distribution {
	if weight < 0 {
		panic(fmt.Sprintf("calibrate: the weight %v of a row is negative", weight))
	}
	d.weight = weight / d.unit
	return d
}

// level returns the value of Q for a target with more than below scores, and with equal scores.
func (d Distribution) level(below, equal int, tau float64) float64 {
	if d.before == nil {
		return (float64(below) + tau*float64(equal+1)) / float64(len(d.scores)+1)
	}
	all := d.before[len(d.scores)] + d.weight
	if !(all > 0 && all <= math.MaxFloat64) {
		return tau // the row alone has all the weight
	}
	return (d.before[below] + tau*(d.before[below+equal]-d.before[below]+d.weight)) / all
}

// CDF returns Q(y, τ), or NaN if y is NaN. It panics if τ is not in [0,1].
func (d Distribution) CDF(y, tau float64) float64 {
	checkTau(tau)
	if math.IsNaN(y) {
		return y
	}
	s := d.calibration.levelOf(d.row, y)
	lower, equal := countTies(d.scores, s)
	return d.level(lower, equal, tau)
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
	n := len(d.scores)
	k := math.Ceil(level*float64(n+1)*(1-hypothesis.Slack) - tau)
	if d.before != nil { // the smallest k for which Q just above the k-th score is at least level
		k = float64(sort.Search(n+1, func(k int) bool { return d.level(k, 0, tau) >= level*(1-hypothesis.Slack) }))
	}
	switch {
	case k < 1:
		return math.Inf(-1)
	case int(k) > n:
		return math.Inf(1)
	default:
		return d.calibration.targetOf(d.row, d.scores[int(k)-1])
	}
}

// interpolatedQuantile returns a quantile without jumps and infinities. The i-th smallest of n
// calibration scores has the level i/(n+1). The quantile is linear between these levels and
// constant beyond the first and the last. Within the range of the scores, it lies between
// Quantile(level, 1) and Quantile(level, 0). It has no guarantee. With weights, the level of a
// score is Q at τ=1/2, as if no scores tied. Without calibration rows, or if the row alone has all
// the weight, the quantile is NaN.
func (d Distribution) interpolatedQuantile(level float64) float64 {
	n := len(d.scores)
	if n == 0 || math.IsNaN(level) {
		return math.NaN()
	}
	position := min(max(level*float64(n+1)-1, 0), float64(n-1))
	if d.before != nil {
		if all := d.before[n] + d.weight; !(all > d.weight && all <= math.MaxFloat64) {
			return math.NaN()
		}
		position = d.weightedPosition(level)
	}
	i := int(position)
	lo := d.calibration.targetOf(d.row, d.scores[i])
	if w := position - float64(i); w > 0 {
		return lo + w*(d.calibration.targetOf(d.row, d.scores[i+1])-lo)
	}
	return lo
}

// weightedPosition returns the position of a level among the scores, as a fractional index. Scores
// without weight have no position of their own.
func (d Distribution) weightedPosition(level float64) float64 {
	n := len(d.scores)
	k := sort.Search(n, func(k int) bool { return d.level(k, 1, .5) >= level })
	switch {
	case k == 0:
		return 0
	case k == n:
		return float64(n - 1)
	}
	low, high := d.level(k-1, 1, .5), d.level(k, 1, .5)
	return float64(k-1) + (level-low)/(high-low)
}

func checkTau(tau float64) {
	if !(tau >= 0 && tau <= 1) {
		panic(fmt.Sprintf("calibrate: τ %v is not between 0 and 1", tau))
	}
}
