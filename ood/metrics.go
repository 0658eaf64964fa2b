package ood

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrEmpty is returned by the metrics where one of the two sides has no rows.
var ErrEmpty = errors.New("no scores")

// Metrics are the usual figures of merit for telling out-of-domain rows (the
// positive class) from in-domain ones. All are in [0,1].
type Metrics struct {
	// AUROC is the area under the receiver operating characteristic: the
	// probability that an out-of-domain row scores above an in-domain row,
	// ties counted as one half (Mann-Whitney).
	AUROC float64 `json:"auroc"`
	// FPR95 is the share of in-domain rows flagged at the threshold that
	// flags at least 95 % of the out-of-domain rows: the smallest false
	// positive rate on the ROC curve with true positive rate ≥ .95. Lower is
	// better. (Some papers swap the classes and ask for 95 % of the
	// in-domain rows; that is another number.)
	FPR95 float64 `json:"fpr95"`
	// AUPRIn is the average precision with in-domain as the positive class
	// and scores negated.
	AUPRIn float64 `json:"aupr_in"`
	// AUPROut is the average precision with out-of-domain as the positive
	// class.
	AUPROut float64 `json:"aupr_out"`
}

// Evaluate computes all metrics of in-domain scores against out-of-domain
// scores in O(n log n). Infinite scores are ranked as such. A NaN or an empty
// side is an error; the latter wraps ErrEmpty.
func Evaluate(in, out []float64) (Metrics, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return Metrics{}, err
	}
	return Metrics{
		AUROC:   c.auroc(),
		FPR95:   c.fprAt(.95),
		AUPRIn:  c.averagePrecisionIn(),
		AUPROut: c.averagePrecisionOut(),
	}, nil
}

// AUROC is Metrics.AUROC alone.
func AUROC(in, out []float64) (float64, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return 0, err
	}
	return c.auroc(), nil
}

// AUPRIn is Metrics.AUPRIn alone.
func AUPRIn(in, out []float64) (float64, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return 0, err
	}
	return c.averagePrecisionIn(), nil
}

// AUPROut is Metrics.AUPROut alone.
func AUPROut(in, out []float64) (float64, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return 0, err
	}
	return c.averagePrecisionOut(), nil
}

// FPR95 is Metrics.FPR95 alone.
func FPR95(in, out []float64) (float64, error) {
	return FPRAt(in, out, .95)
}

// FPRAt is the smallest false positive rate among the thresholds whose true
// positive rate is at least tpr, out-of-domain being positive. It panics
// unless 0 ≤ tpr ≤ 1.
func FPRAt(in, out []float64, tpr float64) (float64, error) {
	if !(0 <= tpr && tpr <= 1) {
		panic(fmt.Sprintf("ood: true positive rate %v outside [0,1]", tpr))
	}
	c, err := newCurve(in, out)
	if err != nil {
		return 0, err
	}
	return c.fprAt(tpr), nil
}

// step is one distinct score: a row is flagged if it scores at least
// threshold, which flags in rows of the in-domain and out of the
// out-of-domain side.
type step struct {
	threshold float64
	in, out   int
}

// curve holds cumulative counts per distinct score, from the highest down.
type curve struct {
	steps     []step
	nIn, nOut int
}

func newCurve(in, out []float64) (curve, error) {
	a, err := sorted(in, "in-domain")
	if err != nil {
		return curve{}, err
	}
	b, err := sorted(out, "out-of-domain")
	if err != nil {
		return curve{}, err
	}
	c := curve{nIn: len(a), nOut: len(b)}
	i, j := len(a), len(b)
	for i > 0 || j > 0 {
		top := math.Inf(-1)
		if i > 0 {
			top = a[i-1]
		}
		if j > 0 {
			top = max(top, b[j-1])
		}
		for i > 0 && a[i-1] == top {
			i--
		}
		for j > 0 && b[j-1] == top {
			j--
		}
		c.steps = append(c.steps, step{top, len(a) - i, len(b) - j})
	}
	return c, nil
}

func sorted(scores []float64, side string) ([]float64, error) {
	if len(scores) == 0 {
		return nil, fmt.Errorf("%s side: %w", side, ErrEmpty)
	}
	for i, s := range scores {
		if math.IsNaN(s) {
			return nil, fmt.Errorf("%s score %d is NaN", side, i)
		}
	}
	s := slices.Clone(scores)
	slices.Sort(s)
	return s, nil
}

func (c curve) auroc() float64 {
	// Twice the Mann-Whitney statistic is an integer, so that the sum is
	// exact up to 2⁵³.
	var twice float64
	var last step
	for _, s := range c.steps {
		twice += float64(s.in-last.in) * float64(s.out+last.out)
		last = s
	}
	return twice / 2 / (float64(c.nIn) * float64(c.nOut))
}

func (c curve) fprAt(tpr float64) float64 {
	if tpr == 0 {
		return 0
	}
	for _, s := range c.steps {
		if float64(s.out)/float64(c.nOut) >= tpr {
			return float64(s.in) / float64(c.nIn)
		}
	}
	return 1
}

func (c curve) averagePrecisionOut() float64 {
	var sum float64
	last := 0
	for _, s := range c.steps {
		if s.out > last {
			sum += float64(s.out-last) * float64(s.out) / float64(s.in+s.out)
			last = s.out
		}
	}
	return sum / float64(c.nOut)
}

func (c curve) averagePrecisionIn() float64 {
	var sum float64
	for k, s := range slices.Backward(c.steps) {
		// Rows that score at most s.threshold are those not flagged by the
		// step above.
		var above step
		if k > 0 {
			above = c.steps[k-1]
		}
		if in := c.nIn - above.in; s.in > above.in {
			sum += float64(s.in-above.in) * float64(in) / float64(in+c.nOut-above.out)
		}
	}
	return sum / float64(c.nIn)
}
