package audit

import (
	"github.com/attach-uncertainty/attach/calibrate"
)

// counted are the ranks of some rows, in two ways: of all, and of those that differ.
//
// Which of them is right nobody can tell from the rows. Short texts and tables of few
// values repeat by themselves, as calibration rows do, and all count. Files that were
// copied count once. So everything is said that holds in both cases, and no more.
type counted struct{ all, distinct calibrate.Ranks }

// discoveries are those of all rows. Their p-values go up to the largest that both
// ways have discoveries at. So the false discovery rate holds in both: what is
// discovered still grows if p-values fall, and each way has as many discoveries as its
// largest p-value needs (Blanchard & Roquain 2008, Two simple sufficient conditions for
// FDR control).
func (c counted) discoveries(o calibrate.DiscoveryOptions) (calibrate.Discoveries, error) {
	d, err := c.all.Discoveries(o)
	if o.Lambda > 0 && err == nil { // nothing is promised of two such thresholds
		var other calibrate.Discoveries
		if other, err = c.distinct.Discoveries(o); other.PValue < d.PValue {
			d.PValue, d.Count = other.PValue, upTo(c.all, other.PValue).Rows()-upTo(c.all, other.PValue)[len(c.all)-1]
		}
		return d, err
	}
	for last := 2.; err == nil && d.PValue != last; {
		last = d.PValue
		for _, ranks := range []calibrate.Ranks{c.distinct, c.all} {
			var less calibrate.Discoveries
			if less, err = upTo(ranks, d.PValue).Discoveries(o); err != nil {
				return d, err
			}
			d.PValue, d.Count = less.PValue, less.Count
		}
	}
	return d, err
}

// upTo are ranks with larger p-values than p made 1, so that discoveries go up to p.
func upTo(r calibrate.Ranks, p float64) calibrate.Ranks {
	less := calibrate.NewRanks(len(r) - 1)
	for k, count := range r {
		if float64(k+1)/float64(len(r)) > p {
			k = len(r) - 1
		}
		less[k] += count
	}
	return less
}

// bounds are those of both ways.
type bounds struct{ all, distinct calibrate.OutlierBounds }

func (c counted) bounds(delta float64) (b bounds, err error) {
	if b.all, err = c.all.OutlierBounds(delta); err == nil {
		b.distinct, err = c.distinct.OutlierBounds(delta)
	}
	return b, err
}

// outliers are how many there are at least among the rows of a group, in both ways.
func (b bounds) outliers(c counted) [2]int {
	return [2]int{b.all.Outliers(c.all), b.distinct.Outliers(c.distinct)}
}

// falsely is how large a share of rows with p-values of at most p is of inliers, at most.
func (b bounds) falsely(c counted, p float64) float64 {
	return max(b.all.FDP(c.all, p), b.distinct.FDP(c.distinct, p))
}

// shift is in which way there is less.
func (c counted) shift() (higher, lower [2]float64) {
	higher[0], lower[0] = c.all.Shift()
	higher[1], lower[1] = c.distinct.Shift()
	return higher, lower
}
