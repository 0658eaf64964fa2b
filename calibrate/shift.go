package calibrate

import "github.com/attach-uncertainty/attach/internal/numeric/hypothesis"

// Shift tests whether audited rows score like the calibration rows. higher is a p-value for
// scores that are too high: if all rows are inliers, it bounds the probability of at least as
// many rows with such high scores. lower is a p-value for scores that are too low. A two-sided
// p-value is twice the smaller of the two.
//
// Outliers score higher, and so do rows of another kind. Rows that the model or the heads were
// trained on score lower. If scores tie, p-values become larger, and lower is then
// meaningless.
//
// If all rows are inliers, the number of rows with a p-value of at most k/(n+1) has a
// beta-binomial distribution (see Ranks). Shift computes its tail probability for the K values
// of k that OutlierBounds uses, and multiplies the smallest by K (Bonferroni). Thus higher is
// below delta exactly if OutlierBounds(delta) finds an outlier.
//
// A small fraction of outliers changes few ranks by much, which tests of all ranks together
// (Mann & Whitney, Smirnov, Anderson & Darling) detect late. They detect a small shift of all
// rows a little earlier.
func (r Ranks) Shift() (higher, lower float64) {
	n, rows := len(r)-1, r.Rows()
	looks := hypothesis.Looks(n)
	higher, lower = 1, 1
	for _, k := range looks {
		m, count := hypothesis.Misses{Allowed: k, Calibration: n}, r.below(k)
		higher = min(higher, float64(len(looks))*m.AtLeast(count, rows))
		lower = min(lower, float64(len(looks))*m.AtMost(count, rows))
	}
	return higher, lower
}
