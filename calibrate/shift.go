package calibrate

import "github.com/attach-uncertainty/attach/internal/numeric/hypothesis"

// Shift tests whether audited rows score like the calibration rows. higher is the
// probability, at most, that so many rows or more score so high if all are inliers, and
// lower that so few or fewer do. Twice the less of both is that of either.
//
// Higher scores are those of outliers, or of rows of another kind. Lower ones are those
// of rows that network or heads were trained on, unless scores tie: ties make p-values
// larger, and lower is then meaningless.
//
// The number of rows with a p-value of k/(n+1) or less is beta-binomial if all are
// inliers, by the law of Ranks. The least of K such probabilities, of the
// OutlierBounds' values of k, is multiplied by K (Bonferroni). So higher is below
// delta just where OutlierBounds(delta) finds an outlier.
//
// A small share of outliers moves few ranks, and far, which tests of all ranks
// together (Mann & Whitney, Smirnov, Anderson & Darling) see late. A small shift of
// all rows they see a little earlier.
func (r Ranks) Shift() (higher, lower float64) {
	n, rows := len(r)-1, r.Rows()
	at := hypothesis.Looks(n)
	higher, lower = 1, 1
	for _, k := range at {
		m, count := hypothesis.Misses{Allowed: k, Calibration: n}, r.below(k)
		higher = min(higher, float64(len(at))*m.AtLeast(count, rows))
		lower = min(lower, float64(len(at))*m.AtMost(count, rows))
	}
	return higher, lower
}
