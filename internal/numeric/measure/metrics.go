package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// errEmpty reports that there are no in-distribution scores or no OOD scores.
var errEmpty = errors.New("no scores")

// Metrics has the same fields as compare.Metrics, which documents them.
type Metrics struct {
	AUROC          float64 `json:"auroc"`
	FPR95          float64 `json:"fpr95"`
	AUPRIn         float64 `json:"aupr_in"`
	AUPROut        float64 `json:"aupr_out"`
	FPR95In        float64 `json:"fpr95_in"`
	DetectionError float64 `json:"detection_error"`
}

// Evaluate computes metrics of how well scores separate OOD rows (out) from in-distribution
// rows (in), in O(n log n) time for n rows. Scores may be infinite. Evaluate returns an error
// if a score is NaN or if there are no rows of one kind.
func Evaluate(in, out []float64) (Metrics, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return Metrics{}, err
	}
	return c.metrics(), nil
}

// AUROC returns only the AUROC of Evaluate.
func AUROC(in, out []float64) (float64, error) {
	m, err := Evaluate(in, out)
	return m.AUROC, err
}

// curve holds the number of rows with each distinct score, from the highest score to the
// lowest.
type curve struct {
	thresholds []float64
	in, out    []int32 // number of rows with each threshold as score
	nIn, nOut  int
}

func newCurve(in, out []float64) (curve, error) {
	a, err := sortScores(in, "in-domain")
	if err != nil {
		return curve{}, err
	}
	b, err := sortScores(out, "out-of-domain")
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
		previousI, previousJ := i, j
		for i > 0 && a[i-1] == top {
			i--
		}
		for j > 0 && b[j-1] == top {
			j--
		}
		c.thresholds = append(c.thresholds, top)
		c.in, c.out = append(c.in, int32(previousI-i)), append(c.out, int32(previousJ-j))
	}
	return c, nil
}

func sortScores(scores []float64, side string) ([]float64, error) {
	if len(scores) == 0 {
		return nil, fmt.Errorf("%s side: %w", side, errEmpty)
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

// metrics computes the metrics from the counts of rows, without the thresholds.
func (c curve) metrics() Metrics {
	nIn, nOut := float64(c.nIn), float64(c.nOut)
	needIn, needOut := atLeast(.95, c.nIn), atLeast(.95, c.nOut)
	// flaggedIn and flaggedOut count the rows that score at least the current threshold.
	flaggedIn, flaggedOut := 0, 0
	// Twice the Mann–Whitney statistic is an integer, and so is the numerator of FPR − TPR.
	// The sums are therefore exact up to 2⁵³.
	var twiceMannWhitney, minDifference, precisionIn, precisionOut float64
	reached := false
	m := Metrics{FPR95In: 1}
	for k, in := range c.in {
		in, out := int(in), int(c.out[k])
		if in|out == 0 {
			continue
		}
		if in > 0 {
			twiceMannWhitney += float64(in) * float64(2*flaggedOut+out)
			// The precision is the fraction of in-distribution rows among the rows that score
			// at most the current threshold.
			remaining := c.nIn - flaggedIn
			precisionIn += float64(in) * float64(remaining) / float64(remaining+c.nOut-flaggedOut)
			flaggedIn += in
		}
		if out > 0 {
			flaggedOut += out
			precisionOut += float64(out) * float64(flaggedOut) / float64(flaggedIn+flaggedOut)
		}
		minDifference = min(minDifference, float64(flaggedIn)*nOut-float64(flaggedOut)*nIn)
		if !reached && flaggedOut >= needOut {
			reached = true
			m.FPR95 = float64(flaggedIn) / nIn
		}
		if c.nIn-flaggedIn >= needIn {
			m.FPR95In = float64(c.nOut-flaggedOut) / nOut
		}
	}
	m.AUROC = twiceMannWhitney / 2 / (nIn * nOut)
	m.AUPRIn, m.AUPROut = precisionIn/nIn, precisionOut/nOut
	m.DetectionError = (1 + minDifference/(nIn*nOut)) / 2
	return m
}

// atLeast returns the smallest count k with k/n ≥ fraction.
func atLeast(fraction float64, n int) int {
	k := int(fraction * float64(n))
	for k > 0 && float64(k-1)/float64(n) >= fraction {
		k--
	}
	for float64(k)/float64(n) < fraction {
		k++
	}
	return k
}
