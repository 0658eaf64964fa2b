package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Selective accepts the rows whose largest softmax probability, at temperature 1,
// is above Confidence: with 95 % confidence, over draws of the calibration rows,
// the share of errors among rows accepted is at most what was asked.
type Selective struct {
	Confidence   float64 // +Inf: nothing is accepted
	Rows, Errors int     // calibration rows accepted, and how many of them are errors
	Of           int     // calibration rows to choose among
	Least        int     // how many it takes at the least, of which none is an error
}

const (
	// selectiveDoubt is the probability that the error asked is exceeded.
	selectiveDoubt = .05
	// selectiveTests is the number of thresholds that are tried.
	selectiveTests = 20
)

// Selective finds the least confidence above which the share of errors is at
// most epsilon. Only calibration rows that kept, of one entry a row, says, or all
// where it is nil, are chosen among: new rows are to be kept on the same grounds.
//
// Thresholds that accept a twentieth of these rows, two twentieths and so on are
// tested in this order, each at 5 %, until one fails (fixed sequence testing). Rows
// above the next one's confidence are independent given it, so that their errors are
// binomial, and each test is exact. The first threshold that is too low is passed
// with a probability of at most 5 % if the share of errors, as the threshold falls,
// exceeds epsilon once and for all, as it does where the network is more often right
// the surer it is.
//
// References: Angelopoulos, Bates, Candès, Jordan & Lei (2021), Learn then Test;
// Geifman & El-Yaniv (2017), Selective Classification for Deep Neural Networks.
func (c ClassCalibration) Selective(kept []bool, epsilon float64) (Selective, error) {
	if err := checkLevel("share of errors", epsilon); err != nil {
		return Selective{}, err
	}
	if kept != nil && len(kept) != len(c.Labels) {
		return Selective{}, fmt.Errorf("%d of %d calibration rows are said to be kept or not", len(kept), len(c.Labels))
	}
	var order []int
	for i := range c.Labels {
		if kept == nil || kept[i] {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.Top[b], c.Top[a]) })
	m := len(order)
	s := Selective{Confidence: math.Inf(1), Of: m, Least: int(math.Ceil(math.Log(selectiveDoubt) / math.Log1p(-epsilon)))}
	for j := 1; j <= selectiveTests; j++ {
		k := m * j / selectiveTests
		var confidence float64 // all are above it
		if k < m {
			confidence = c.Top[order[k]]
		}
		rows, errors := 0, 0
		for _, i := range order[:k] {
			if c.Top[i] > confidence {
				rows++
				errors += min(c.Ranks[i], 1)
			}
		}
		if rows < s.Least {
			continue // it fails even without an error
		}
		if 1-hypothesis.Binomial(errors+1, rows, epsilon) > selectiveDoubt {
			break
		}
		s.Confidence, s.Rows, s.Errors = confidence, rows, errors
	}
	return s, nil
}
