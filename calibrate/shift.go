package calibrate

import "github.com/attach-uncertainty/attach/internal/numeric/hypothesis"

// Shift tests whether audited rows score like the calibration rows. If the result higher is
// small, scores are too high. If the result lower is small, scores are too low. Both
// results are p-values: if all rows are inliers, each is at most α with probability at most
// α. Twice the smaller of the two is a two-sided p-value.
//
// Outliers and rows of a different kind score higher than calibration rows. Rows that the
// model or the detector was trained on score lower. If scores tie, the p-values of rows are
// larger, and lower is then meaningless.
//
// If all rows are inliers, the number of rows with a p-value of at most k/(n+1) has a
// beta-binomial distribution (see Ranks). Shift computes its tail probability for the K
// values of k that OutlierBounds uses, and multiplies the smallest by K (Bonferroni). Thus
// the result higher is below delta exactly if OutlierBounds(delta) finds an outlier.
//
// A small fraction of outliers changes only a few ranks, but by much. Tests of all ranks
// together (Mann & Whitney, Smirnov, Anderson & Darling) need more rows to detect it. They
// detect a small shift of all rows a little earlier than Shift.
func (r Ranks) Shift() (higher, lower float64) {
	n, rows := len(r)-1, r.Rows()
	looks := hypothesis.Looks(n)
	higher, lower = 1, 1
	for _, k := range looks {
		m, count := hypothesis.Misses{Allowed: k, Calibration: n}, r.countBelow(k)
		higher = min(higher, float64(len(looks))*m.AtLeast(count, rows))
		lower = min(lower, float64(len(looks))*m.AtMost(count, rows))
	}
	return higher, lower
}
