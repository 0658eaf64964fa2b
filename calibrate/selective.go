package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Selective accepts the rows whose confidence is above Confidence. The confidence of a row is
// its largest softmax probability at temperature 1. With 95 % confidence over draws of the
// calibration rows, the error rate of accepted rows is at most the requested one.
type Selective struct {
	Confidence   float64 // rows with a higher confidence are accepted; +Inf if no row can be accepted
	Rows, Errors int     // number of accepted calibration rows, and number of wrong predictions among them
	Of           int     // number of candidate calibration rows
	Least        int     // smallest number of accepted rows that passes a test if all are right
}

const (
	// selectiveDelta is the allowed probability that the error rate exceeds the requested one.
	selectiveDelta = .05
	// selectiveTests is the largest number of thresholds that are tested.
	selectiveTests = 20
)

// Selective finds the smallest Confidence above which the error rate is at most epsilon.
// candidates[i] reports whether calibration row i may be used. If candidates is nil, all rows
// are used. New rows must be selected by the same rule.
//
// Thresholds that accept 5 %, 10 %, … of the candidates are tested in this order until a
// test fails. Thresholds that accept fewer than Least rows are skipped. Each test has the
// level 5 % (fixed sequence testing). The rows above a threshold are independent given the
// confidence of the next row. Their number of errors is therefore binomial, and each test
// is exact.
//
// The thresholds are quantiles of the calibration rows, and not fixed as in Learn then Test.
// The bound of 5 % for the whole sequence therefore assumes that the error rate exceeds
// epsilon at all thresholds below some confidence c, and at none above c. This is the case if
// the model is right more often when it is more confident. Given the number of rows above c,
// the first threshold below c is then fixed. It accepts all rows above c and the next rows
// below c, and both parts have an error rate of at least epsilon. Its test therefore passes
// with probability at most 5 %, and no threshold below c is selected unless it passes.
//
// References: Angelopoulos, Bates, Candès, Jordan & Lei (2021), Learn then Test; Geifman &
// El-Yaniv (2017), Selective Classification for Deep Neural Networks.
func (c ClassCalibration) Selective(candidates []bool, epsilon float64) (Selective, error) {
	if err := checkLevel("error rate", epsilon); err != nil {
		return Selective{}, err
	}
	if c.Weights != nil {
		return Selective{}, errors.New("the error rate of accepted rows has no bound for weighted calibration rows: calibrate without weights")
	}
	if candidates != nil && len(candidates) != len(c.Labels) {
		return Selective{}, fmt.Errorf("candidates has %d entries for %d calibration rows: the numbers must be equal", len(candidates), len(c.Labels))
	}
	var order []int
	for i := range c.Labels {
		if candidates == nil || candidates[i] {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.Top[b], c.Top[a]) })
	m := len(order)
	s := Selective{Confidence: math.Inf(1), Of: m, Least: int(math.Ceil(math.Log(selectiveDelta) / math.Log1p(-epsilon)))}
	for j := 1; j <= selectiveTests; j++ {
		accepted := m * j / selectiveTests
		var confidence float64 // 0 accepts all rows
		if accepted < m {
			confidence = c.Top[order[accepted]]
		}
		rows, errors := 0, 0
		for _, i := range order[:accepted] {
			if c.Top[i] > confidence {
				rows++
				errors += min(c.Ranks[i], 1)
			}
		}
		if rows < s.Least {
			continue // skipped, because the test would fail even without an error
		}
		if 1-hypothesis.Binomial(errors+1, rows, epsilon) > selectiveDelta {
			break
		}
		s.Confidence, s.Rows, s.Errors = confidence, rows, errors
	}
	return s, nil
}
