package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// WeightedConformal turns scores into p-values, like Conformal, for new rows from another
// distribution than the calibration rows. The distribution of the inputs may differ, but not
// the distribution of targets or labels given an input (covariate shift). The weight of a row
// is proportional to the ratio of the two densities of its input: new rows divided by
// calibration rows.
//
// Equal weights give exactly the results of Conformal. The guarantee of Conformal holds for
// true weights. DensityRatio estimates weights, and the guarantee then holds approximately. If
// the weights come from other rows, the error rate is higher by at most half the mean absolute
// difference between estimated and true weights, both scaled to mean 1 on calibration rows.
//
// A new row with a large weight has a large p-value, because few calibration rows are like
// it. Unusual rows that resemble the new rows are therefore flagged less often.
//
// References: Tibshirani, Barber, Candès & Ramdas (2019), Conformal Prediction Under Covariate
// Shift; Lei & Candès (2021), Conformal Inference of Counterfactuals and Individual Treatment
// Effects, for estimated weights.
type WeightedConformal struct {
	scores []float64 // in increasing order
	// tails[k] is the total weight of scores[k:], in units of the largest weight. Equal weights
	// are then exactly 1, so their sums have no rounding errors.
	tails []float64
	unit  float64
}

// NewWeightedConformal sorts calibration scores together with their weights. Scores may be
// infinite, but a NaN is an error. Weights must be finite, and must not be negative.
func NewWeightedConformal(scores, weights []float64) (WeightedConformal, error) {
	if _, err := sortedCopy(scores); err != nil {
		return WeightedConformal{}, err
	}
	if err := checkWeights(weights, len(scores)); err != nil {
		return WeightedConformal{}, err
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	c := WeightedConformal{scores: make([]float64, len(scores)), tails: make([]float64, len(scores)+1), unit: 1}
	if largest := slices.Max(append([]float64{0}, weights...)); largest > 0 {
		c.unit = largest
	}
	for k, i := range slices.Backward(order) {
		c.scores[k], c.tails[k] = scores[i], c.tails[k+1]+weights[i]/c.unit
	}
	return c, nil
}

// PValue returns the total weight of the row and of the calibration rows with a score of at
// least s, as a fraction of the weight of all these rows and the row. If weight is not
// finite, or if no row has a weight above 0, PValue returns 1. It panics if weight is
// negative. A score of NaN counts as +Inf.
func (c WeightedConformal) PValue(s, weight float64) float64 {
	if math.IsNaN(s) {
		s = math.Inf(1)
	}
	return c.pValueAt(sort.SearchFloat64s(c.scores, s), weight)
}

// pValueAt returns the p-value of a row whose score exceeds exactly the k smallest scores.
func (c WeightedConformal) pValueAt(k int, weight float64) float64 {
	if weight < 0 {
		panic(fmt.Sprintf("calibrate: the weight %v of a row is negative", weight))
	}
	var tail, all float64
	if len(c.scores) > 0 {
		tail, all, weight = c.tails[k], c.tails[0], weight/c.unit
	}
	if !(weight+all > 0) || !(weight+all <= math.MaxFloat64) {
		return 1
	}
	return (weight + tail) / (weight + all)
}

// Threshold returns the largest calibration score whose p-value is above α. It is +Inf if the
// row's own weight is too large a fraction of all weights, and −Inf if α ≥ 1. s > Threshold(α,
// weight) and PValue(s, weight) ≤ α are equivalent for every finite s.
func (c WeightedConformal) Threshold(alpha, weight float64) float64 {
	n := len(c.scores)
	switch k := sort.Search(n+1, func(k int) bool { return !(c.pValueAt(k, weight) > alpha) }); k {
	case n + 1:
		return math.Inf(1)
	case 0:
		return math.Inf(-1)
	default:
		return c.scores[k-1]
	}
}

// sortWeighted returns the sorted scores, and the same scores with their weights. The latter
// is nil without weights.
func sortWeighted(scores, weights []float64) ([]float64, *WeightedConformal, error) {
	if weights == nil {
		sorted, err := sortedCopy(scores)
		return sorted, nil, err
	}
	c, err := NewWeightedConformal(scores, weights)
	return c.scores, &c, err
}

// thresholdAt returns the threshold at α of a row with this τ and weight. Rows have no weights
// if weighted is nil.
func thresholdAt(sorted []float64, weighted *WeightedConformal, alpha, tau, weight float64) threshold {
	if weighted == nil {
		return smoothedThreshold(sorted, alpha, tau)
	}
	return weighted.closedThreshold(alpha, weight).withTau(0)
}

// closedThreshold returns the threshold of intervals and sets, which has no random ties.
func (c WeightedConformal) closedThreshold(alpha, weight float64) randomThreshold {
	return randomThreshold{c.Threshold(hypothesis.Forgive(alpha), weight), 1}
}

// EffectiveSampleSize returns (Σw)²/Σw². It is the number of rows with equal weights that
// determine a mean about as precisely as these weighted rows do. It is 0 if all weights are 0.
func EffectiveSampleSize(weights []float64) float64 {
	var sum, squares float64
	for _, w := range weights {
		sum += w
		squares += w * w
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares
}

// checkWeights returns an error unless there are n weights, which are finite and not negative.
func checkWeights(weights []float64, n int) error {
	if len(weights) != n {
		return fmt.Errorf("there are %d weights for %d calibration rows: the numbers must be equal", len(weights), n)
	}
	for i, w := range weights {
		if !(w >= 0 && w <= math.MaxFloat64) {
			return fmt.Errorf("the weight of calibration row %d (counted from 0) is %v: weights are finite and not negative", i, w)
		}
	}
	return nil
}
