package evidence

import (
	"cmp"
	"fmt"
	"slices"
)

// ClassShare compares how often a class is predicted.
type ClassShare struct {
	Calibration, Audited float64 // shares of the rows; NaN of no rows

	// PValue is the probability, at most, that the shares of any class differ as much
	// if both sets of rows are alike.
	PValue float64
}

// ClassShares compares how many calibration rows and how many audited rows are
// predicted each class, by Fisher's exact test of the class against all others: twice
// the smaller tail of the hypergeometric distribution. P-values are adjusted for the
// number of classes (Holm): with probability 1−α none is α or less of a class that is
// as frequent among both.
//
// References: Fisher (1935), The Logic of Inductive Inference; Holm (1979), A Simple
// Sequentially Rejective Multiple Test Procedure.
func ClassShares(calibration, audited []int) ([]ClassShare, error) {
	if len(calibration) != len(audited) {
		return nil, fmt.Errorf("calibration rows are predicted %d classes, audited rows %d", len(calibration), len(audited))
	}
	n, m := 0, 0
	for c := range calibration {
		if calibration[c] < 0 || audited[c] < 0 {
			return nil, fmt.Errorf("class %d is predicted %d and %d times", c, calibration[c], audited[c])
		}
		n += calibration[c]
		m += audited[c]
	}
	shares := make([]ClassShare, len(calibration))
	order := make([]int, len(shares))
	for c := range shares {
		k, both := calibration[c], calibration[c]+audited[c]
		lower := Hypergeometric(k, both, n, n+m)
		upper := Hypergeometric(audited[c], both, m, n+m)
		shares[c] = ClassShare{float64(k) / float64(n), float64(audited[c]) / float64(m), min(1, 2*min(lower, upper))}
		order[c] = c
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(shares[a].PValue, shares[b].PValue) })
	var adjusted float64
	for i, c := range order {
		adjusted = max(adjusted, min(1, float64(len(order)-i)*shares[c].PValue))
		shares[c].PValue = adjusted
	}
	return shares, nil
}
