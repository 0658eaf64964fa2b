package hypothesis

import "fmt"

// ClassShare compares how often a class is predicted in two sets of rows.
type ClassShare struct {
	Calibration, Audited float64 // fraction of the rows with this predicted class; NaN without rows

	// PValue is the adjusted p-value of the hypothesis that the class is equally frequent in
	// both sets of rows.
	PValue float64
}

// ClassShares compares the frequencies of predicted classes in the calibration rows and the
// audited rows. The arguments are the numbers of rows with each predicted class. Each class is
// compared with all other classes by Fisher's exact test: the p-value is twice the smaller
// tail of the hypergeometric distribution. The p-values are adjusted for the number of classes
// (Holm). With probability 1−α, no class that is equally frequent in both gets an adjusted
// p-value of at most α.
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
