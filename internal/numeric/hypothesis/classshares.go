package hypothesis

import "fmt"

// ClassShare compares how often one class is predicted in two sets of rows.
type ClassShare struct {
	Calibration, Audited float64 // fraction of the rows with this predicted class; NaN without rows

	// PValue is at most the probability that any class differs as much if both sets come from
	// the same source.
	PValue float64
}

// ClassShares compares how many calibration rows and how many audited rows are predicted to be
// of each class. It uses Fisher's exact test of each class against all others: twice the
// smaller tail of the hypergeometric distribution. It adjusts the p-values for the number of
// classes (Holm): with probability 1−α, no class that is equally frequent in both gets a
// p-value of α or less.
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
	shares, p := make([]ClassShare, len(calibration)), make([]float64, len(calibration))
	for c := range shares {
		k, both := calibration[c], calibration[c]+audited[c]
		lower := Hypergeometric(k, both, n, n+m)
		upper := Hypergeometric(audited[c], both, m, n+m)
		shares[c] = ClassShare{Calibration: float64(k) / float64(n), Audited: float64(audited[c]) / float64(m)}
		p[c] = min(1, 2*min(lower, upper))
	}
	for c, adjusted := range Holm(p) {
		shares[c].PValue = adjusted
	}
	return shares, nil
}
