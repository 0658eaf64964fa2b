package measure

import (
	"fmt"
	"slices"
)

// RiskPoint is a point of a risk–coverage curve. Predictions with a score of at most Threshold
// are accepted, and the others are rejected.
type RiskPoint struct {
	Coverage  float64 // fraction of the predictions that are accepted
	Risk      float64 // fraction of the accepted predictions that are wrong
	Threshold float64
}

// RiskCoverage returns the risk–coverage curve of selective classification (Geifman &
// El-Yaniv, 2017). Predictions are accepted in the order of increasing scores. wrong[i]
// reports whether prediction i is wrong. There is one point for each distinct score. At the
// last point, the coverage is 1 and the risk is the error rate of all rows.
//
// If limit is at least 2, a longer curve is thinned to at most limit points, evenly in
// coverage. RiskCoverage returns an error if a score is NaN, if there are no rows, or if the
// lengths differ.
func RiskCoverage(scores []float64, wrong []bool, limit int) ([]RiskPoint, error) {
	r, err := newRisks(scores, wrong)
	if err != nil {
		return nil, err
	}
	n := float64(len(scores))
	points := make([]RiskPoint, len(r.thresholds))
	accepted, errs := 0, 0
	for k, threshold := range r.thresholds {
		accepted, errs = accepted+int(r.right[k]+r.wrong[k]), errs+int(r.wrong[k])
		points[k] = RiskPoint{Coverage: float64(accepted) / n, Risk: float64(errs) / float64(accepted), Threshold: threshold}
	}
	return thinned(points, limit, func(p RiskPoint) float64 { return p.Coverage }), nil
}

// AURC returns the area under the risk–coverage curve, which is the mean risk over the
// coverages 1/n, 2/n, …, 1 (Geifman, Uziel & El-Yaniv, 2019). Lower is better. Ties are
// averaged over all their orders, so the result does not depend on the order of rows. For
// example, the result is the error rate if all scores are equal.
func AURC(scores []float64, wrong []bool) (float64, error) {
	r, err := newRisks(scores, wrong)
	if err != nil {
		return 0, err
	}
	return r.area(), nil
}

// risks holds the number of right and of wrong predictions with each distinct score, from the
// lowest score to the highest.
type risks struct {
	thresholds   []float64
	right, wrong []int32
}

func newRisks(scores []float64, wrong []bool) (risks, error) {
	if len(scores) != len(wrong) {
		return risks{}, fmt.Errorf("%d scores but %d answers", len(scores), len(wrong))
	}
	s, err := sortScores(scores, "in-domain")
	if err != nil {
		return risks{}, err
	}
	r := risks{thresholds: slices.Compact(s)}
	r.right, r.wrong = make([]int32, len(r.thresholds)), make([]int32, len(r.thresholds))
	for i, v := range scores {
		k, _ := slices.BinarySearch(r.thresholds, v)
		if wrong[i] {
			r.wrong[k]++
		} else {
			r.right[k]++
		}
	}
	return r, nil
}

// area returns the area under the curve, computed from the counts without the thresholds.
func (r risks) area() float64 {
	accepted, errs := 0, 0
	var sum float64
	for k, right := range r.right {
		wrong := int(r.wrong[k])
		tied := int(right) + wrong
		// On average over all orders, j·wrong/tied of the first j tied rows are wrong.
		for j := 1; j <= tied; j++ {
			sum += (float64(errs) + float64(j*wrong)/float64(tied)) / float64(accepted+j)
		}
		accepted, errs = accepted+tied, errs+wrong
	}
	return sum / float64(accepted)
}
