package calibrate

import "github.com/attach-uncertainty/attach/internal/evidence"

// Shift is whether audited rows as a whole look like the calibration rows.
type Shift struct {
	// Higher is the probability, at most, that so many rows or more score so high if
	// all are inliers, and Lower that so few or fewer do. Twice the less of both is that
	// of either.
	//
	// Higher scores are those of outliers, or of rows of another kind. Lower ones are
	// those of rows that network or heads were trained on, unless scores tie: ties
	// make p-values larger, and Lower is then meaningless.
	Higher, Lower float64
}

// Shift tests whether audited rows score like the calibration rows.
//
// The number of rows with a p-value of k/(n+1) or less is beta-binomial if all are
// inliers, by the law of Ranks. The least of K such probabilities, of the
// OutlierBounds' values of k, is multiplied by K (Bonferroni). So Higher is below
// delta just where OutlierBounds(delta) finds an outlier.
//
// A small share of outliers moves few ranks, and far, which tests of all ranks
// together (Mann & Whitney, Smirnov, Anderson & Darling) see late. A small shift of
// all rows they see a little earlier.
func (r Ranks) Shift() Shift {
	n, rows := len(r)-1, r.Rows()
	at := evidence.Looks(n)
	s := Shift{1, 1}
	for _, k := range at {
		m, count := evidence.Misses{Allowed: k, Calibration: n}, r.below(k)
		s.Higher = min(s.Higher, float64(len(at))*m.AtLeast(count, rows))
		s.Lower = min(s.Lower, float64(len(at))*m.AtMost(count, rows))
	}
	return s
}
