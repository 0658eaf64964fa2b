package calibrate

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Temperature searches between minTemperature and maxTemperature.
const (
	minTemperature = 0.05
	maxTemperature = 20
)

// Temperature returns the T for which softmax(z/T) has the smallest mean negative
// log-likelihood on the calibration rows, whose logits are n×c and whose labels are in
// [0,c). It returns 0 if the minimum is not between 0.05 and 20. This usually has one of
// two causes: every row is classified correctly, so any smaller T is better, or the model
// is no better than chance.
//
// The likelihood is convex in 1/T. Newton's method, kept within a shrinking bracket, finds the
// root of its derivative.
//
// Reference: Guo, Pleiss, Sun & Weinberger (2017), On Calibration of Modern Neural Networks,
// section 4.2.
func Temperature(logits blas32.General, labels []int) (float64, error) {
	if err := checkRows("logits", logits, labels); err != nil {
		return 0, err
	}
	lo, hi := 1.0/maxTemperature, 1.0/minTemperature
	if slope, _ := nllSlope(logits, labels, lo); slope >= 0 {
		return 0, nil
	}
	if slope, _ := nllSlope(logits, labels, hi); slope <= 0 {
		return 0, nil
	}
	beta := 1.0
	for range 100 {
		slope, curvature := nllSlope(logits, labels, beta)
		if slope > 0 {
			hi = beta
		} else {
			lo = beta
		}
		next := beta - slope/curvature
		if !(next > lo && next < hi) {
			next = lo + (hi-lo)/2
		}
		if math.Abs(next-beta) <= 1e-12*beta {
			return 1 / next, nil
		}
		beta = next
	}
	return 1 / beta, nil
}

// nllSlope returns the first and second derivatives of the mean negative log-likelihood in β =
// 1/T: the means of E[z] − z_label and of Var[z] under softmax(βz).
func nllSlope(logits blas32.General, labels []int, beta float64) (slope, curvature float64) {
	for i, label := range labels {
		z := rows.Row(logits, i)
		top := float64(slices.Max(z))
		// Moments of z − z_label stay accurate if all logits have a large common offset.
		labelLogit := float64(z[label])
		var sum, first, second float64
		for _, v := range z {
			w := math.Exp(beta * (float64(v) - top))
			d := float64(v) - labelLogit
			sum += w
			first += w * d
			second += w * d * d
		}
		first /= sum
		slope += first
		curvature += second/sum - first*first
	}
	n := float64(len(labels))
	return slope / n, curvature / n
}

// checkRows returns an error unless m has rows, one for each label, and only finite values.
// Each label must be the index of a column. name is the name of m in the error.
func checkRows(name string, m blas32.General, labels []int) error {
	if m.Rows != len(labels) {
		return fmt.Errorf("%s have %d rows and there are %d labels: they must be equal", name, m.Rows, len(labels))
	}
	if m.Rows == 0 {
		return fmt.Errorf("%s have no rows to calibrate on", name)
	}
	for i, l := range labels {
		if l < 0 || l >= m.Cols {
			return fmt.Errorf("label %d of row %d is not in 0…%d", l, i, m.Cols-1)
		}
	}
	return rows.CheckFinite(name, m)
}
