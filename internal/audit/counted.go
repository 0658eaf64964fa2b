package audit

import (
	"math"

	"github.com/attach-uncertainty/attach/calibrate"
)

// countedRanks holds the ranks of some rows, counted in two ways: once with all rows, and
// once with distinct rows only.
//
// It is unknown which way is right. Short texts, and rows of tables with few values, repeat
// by chance. Calibration rows repeat in the same way, so every row should count. However,
// copies of a file should count only once. Results are therefore chosen to hold in both
// cases.
type countedRanks struct{ all, distinct calibrate.Ranks }

// upTo returns the number of rows with p-values up to p, for both ways of counting.
func (c countedRanks) upTo(p float64) (all, distinct int) {
	k := int(math.Round(p * float64(len(c.all))))
	return countUpTo(c.all, k), countUpTo(c.distinct, k)
}

// discoveries returns the discoveries among all rows. They end at the largest p-value at
// which both ways of counting make discoveries. For Storey's procedure, they end at the
// smaller of its two thresholds, and the next paragraph does not apply.
//
// The false discovery rate is controlled in both ways, because two conditions hold
// (Blanchard & Roquain 2008, Two simple sufficient conditions for FDR control). First, the
// set of discoveries can only grow if p-values fall. Second, with each way of counting,
// there are at least as many discoveries as the largest p-value of a discovery requires.
func (c countedRanks) discoveries(o calibrate.DiscoveryOptions) (calibrate.Discoveries, error) {
	d, err := c.all.Discoveries(o)
	if o.Lambda > 0 && err == nil { // Storey's procedure has no such guarantee, so take the smaller threshold
		var other calibrate.Discoveries
		if other, err = c.distinct.Discoveries(o); other.PValue < d.PValue {
			d.PValue, d.Count = other.PValue, truncate(c.all, other.PValue).Rows()-truncate(c.all, other.PValue)[len(c.all)-1]
		}
		return d, err
	}
	for last := 2.; err == nil && d.PValue != last; {
		last = d.PValue
		for _, ranks := range []calibrate.Ranks{c.distinct, c.all} {
			var next calibrate.Discoveries
			if next, err = truncate(ranks, d.PValue).Discoveries(o); err != nil {
				return d, err
			}
			d.PValue, d.Count = next.PValue, next.Count
		}
	}
	return d, err
}

// truncate returns a copy of r in which all p-values above p are set to 1. Therefore no
// discovery has a p-value above p.
func truncate(r calibrate.Ranks, p float64) calibrate.Ranks {
	truncated := calibrate.NewRanks(len(r) - 1)
	for k, count := range r {
		if float64(k+1)/float64(len(r)) > p {
			k = len(r) - 1
		}
		truncated[k] += count
	}
	return truncated
}

// bounds holds the bounds on outliers for both ways of counting.
type bounds struct{ all, distinct calibrate.OutlierBounds }

func (c countedRanks) bounds(delta float64) (b bounds, err error) {
	if b.all, err = c.all.OutlierBounds(delta); err == nil {
		b.distinct, err = c.distinct.OutlierBounds(delta)
	}
	return b, err
}

// outliers returns the lower bound on the number of outliers in a group, for both ways of
// counting.
func (b bounds) outliers(c countedRanks) [2]int {
	return [2]int{b.all.Outliers(c.all), b.distinct.Outliers(c.distinct)}
}

// fdp returns the upper bound on the fraction of inliers among all rows with p-values up to p.
// It holds for both ways of counting. No row occurs more than most times.
func (b bounds) fdp(c countedRanks, p float64, most int) float64 {
	all, distinct := c.upTo(p)
	return max(b.all.FDP(c.all, p), fdpWithCopies(b.distinct.FDP(c.distinct, p), distinct, all, most))
}

// fdpWithCopies returns an upper bound on the fraction of inliers among rows. The fraction fdp
// bounds it among the distinct ones of them, and none of these occurs more than most times. An
// inlier can have many copies and an outlier none, so the fraction may be larger with copies.
func fdpWithCopies(fdp float64, distinct, rows, most int) float64 {
	if distinct == rows {
		return fdp
	}
	inliers := fdp * float64(distinct)
	return min(inliers*float64(most), inliers+float64(rows-distinct)) / float64(rows)
}

// shift returns the p-values of the shift tests, for both ways of counting.
func (c countedRanks) shift() (higher, lower [2]float64) {
	higher[0], lower[0] = c.all.Shift()
	higher[1], lower[1] = c.distinct.Shift()
	return higher, lower
}
