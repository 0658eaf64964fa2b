package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// ErrorEstimate is an estimate of the fraction of wrong predictions among rows whose labels are
// unknown.
type ErrorEstimate struct {
	// Error is the estimated fraction. Low and High are the ends of its confidence interval.
	Error, Low, High float64
	// Rows is the number of rows without labels. Calibration is the number of calibration rows
	// that the estimate uses, and Wrong the number of wrong predictions among them. Rows with
	// the weight 0 are not used.
	Rows, Calibration, Wrong int
}

// minWrong is the smallest number of wrong calibration rows from which EstimateError
// estimates. In simulations with fewer wrong rows, an interval of 95 % covered less often if
// the new rows were less confident, for example in none of 178 draws without wrong rows.
const minWrong = 3

// ErrFewErrors means that too few predictions for calibration rows are wrong to tell how errors
// depend on the confidence of the model.
var ErrFewErrors = errors.New("too few predictions for calibration rows are wrong")

// EstimateError estimates how many predictions for new rows are wrong, without their labels.
// top holds the largest softmax probability of each new row, at temperature 1. weights holds
// their weights, and is nil unless c.Weights is set.
//
// An isotonic regression of the calibration rows gives each new row a probability that it is
// wrong, and the estimate is their mean (confidence-based performance estimation). It needs one
// assumption: among rows with equal confidence, the same fraction is wrong as among the
// calibration rows. The new rows may be more or less confident than these. Nothing in the new
// rows can show whether the assumption holds. It fails if labels depend on inputs in another
// way than before, and for inputs of a kind that the calibration rows lack.
//
// The interval contains the fraction of the new rows that are wrong with probability
// confidence, approximately. Its ends are quantiles of beta distributions. Their variances
// count the luck of the calibration rows in each block of the isotonic regression, and the
// luck of the new rows. The lower end starts from the mean of Venn–Abers probabilities, for
// which each new row counts as right. The upper end starts from the estimate and counts one
// more calibration row as wrong, which has the largest influence of all. In 160 simulations with 100 to 5,000
// calibration rows, an interval of 95 % covered in 94 % to 100 % of 300 draws. In some of
// them, the new rows were wrong several times as often as the calibration rows.
//
// The error wraps ErrFewErrors if fewer than three calibration rows are wrong.
//
// References: Kivimäki, Białek, Kuberski & Nurminen (2025), Performance Estimation in Binary
// Classification Using Calibrated Confidence; Fay & Feuer (1997), Confidence Intervals for
// Directly Standardized Rates; Tiwari, Clegg & Zou (2006), Efficient Interval Estimation for
// Age-Adjusted Cancer Rates.
func (c ClassCalibration) EstimateError(top, weights []float64, confidence float64) (ErrorEstimate, error) {
	e := ErrorEstimate{Rows: len(top)}
	if err := c.checkEstimate(top, weights, confidence); err != nil {
		return e, err
	}
	for i := range c.Top {
		if c.weight(i) > 0 {
			e.Calibration++
			e.Wrong += min(c.Ranks[i], 1)
		}
	}
	if e.Wrong < minWrong {
		return e, fmt.Errorf("%w: %d of %d are, and the estimate needs %d", ErrFewErrors, e.Wrong, e.Calibration, minWrong)
	}
	v := c.newVennAbers()
	blocks := v.blocks()
	m := float64(len(top))
	var least float64 // mean of the smaller Venn–Abers probabilities that a row is wrong
	for i, t := range top {
		w := 1.
		if weights != nil {
			w = weights[i]
		}
		least += (1 - v.value(t, w, 1)) / m
		blocks[v.blockAt(blocks, t)].fraction += 1 / m
	}
	var variance, luck, largest float64
	for _, b := range blocks {
		rows := b.block.rows * b.block.rows / b.squares // number of rows with equal weights
		wrong := 1 - b.right/b.block.rows
		smooth := (rows*wrong + .5) / (rows + 1) // a block without errors has luck, too
		e.Error += b.fraction * wrong
		variance += b.fraction * b.fraction / rows * smooth * (1 - smooth)
		luck += b.fraction / m * smooth * (1 - smooth)
		largest = max(largest, b.fraction*b.largest/b.block.rows)
	}
	tail := (1 - confidence) / 2
	// Errors are whole rows.
	e.Low = math.Floor(m*betaQuantile(least, variance+luck, tail)) / m
	e.High = math.Ceil(m*betaQuantile(e.Error+largest, variance+largest*largest+luck, 1-tail)) / m
	return e, nil
}

func (c ClassCalibration) checkEstimate(top, weights []float64, confidence float64) error {
	if len(top) == 0 {
		return errors.New("there are no rows to estimate errors for")
	}
	for i, t := range top {
		if !(t >= 0 && t <= 1) {
			return fmt.Errorf("the largest probability of row %d (counted from 0) is %v: it must be between 0 and 1", i, t)
		}
	}
	if c.Weights != nil {
		if err := checkWeights(c.Weights, len(c.Top)); err != nil {
			return err
		}
	}
	switch {
	case (c.Weights == nil) != (weights == nil):
		return errors.New("either both the calibration rows and the new rows have weights, or neither")
	case weights != nil && len(weights) != len(top):
		return fmt.Errorf("there are %d weights for %d rows: the numbers must be equal", len(weights), len(top))
	case len(c.Ranks) != len(c.Top):
		return fmt.Errorf("there are %d ranks for %d calibration rows: the numbers must be equal", len(c.Ranks), len(c.Top))
	}
	for i, w := range weights {
		if !(w >= 0 && w <= math.MaxFloat64) {
			return fmt.Errorf("the weight of row %d (counted from 0) is %v: weights are finite and not negative", i, w)
		}
	}
	return checkLevel("confidence", confidence)
}

// errorBlock is a block of the isotonic regression of the calibration rows.
type errorBlock struct {
	block
	to               int     // end of its range of values
	squares, largest float64 // sum of squared weights and largest weight of its calibration rows
	fraction         float64 // fraction of the new rows that are in the block
}

// blocks returns the blocks of the isotonic regression of the calibration rows, in increasing
// order of their values.
func (v *vennAbers) blocks() []errorBlock {
	var list []errorBlock
	for to := len(v.values); to > 0; to = v.lastStart[to] {
		from := v.lastStart[to]
		list = append(list, errorBlock{block: v.block(from, to), to: to, squares: v.squares[to] - v.squares[from], largest: slices.Max(v.largest[from:to])})
	}
	slices.Reverse(list)
	return list
}

// blockAt returns the index of the block that holds the value nearest to top.
func (v *vennAbers) blockAt(blocks []errorBlock, top float64) int {
	k := min(sort.SearchFloat64s(v.values, top), len(v.values)-1)
	if k > 0 && top-v.values[k-1] < v.values[k]-top {
		k--
	}
	return sort.Search(len(blocks), func(i int) bool { return blocks[i].to > k })
}

// betaQuantile returns the quantile at level p of the beta distribution with this mean and
// variance. A mean of at most 0 or at least 1 is the quantile itself.
func betaQuantile(mean, variance, p float64) float64 {
	switch largest := mean * (1 - mean); {
	case mean <= 0:
		return 0
	case mean >= 1:
		return 1
	default:
		// The largest variance is that of a distribution on 0 and 1.
		n := max(largest/variance-1, 1e-3)
		return mathext.InvRegIncBeta(mean*n, (1-mean)*n, p)
	}
}
