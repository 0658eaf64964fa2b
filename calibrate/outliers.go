package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// OutlierBounds say of any group of audited rows, and of the rows of it with the
// least p-values, how many are inliers at most. All hold at once with the
// probability asked for: groups and p-values may be chosen after a look at them. Of a
// group that cannot be a part of the audited rows, as none is of the zero value, they
// panic.
type OutlierBounds struct {
	n, rows int   // calibration rows and audited ones
	inliers int   // there are at most so many in all
	looks   []int // of the ranks up to these
	most    []int // at most so many are of inliers
}

// OutlierBounds bounds the inliers among the rows with probability 1−delta, in
// (0,1), over draws of calibration and audited rows.
//
// The number of m₀ inliers with a p-value of k/(n+1) or less is beta-binomial, of
// Beta(k, n+1−k), by the law of Ranks. It exceeds its quantile c(k, m₀) at 1−delta/K
// for one of K values of k, about (n+1)/2, (n+1)/4, … 1, with a probability of at most
// delta. Where it does not, with R(k) rows that have such a p-value,
//
//	m₀ ≤ m̂ = max {i : i ≤ min_k c(k, i) + m − R(k)}
//
// and of each group the inliers with a p-value of j/(n+1) or less are at most
// c(k, m̂), plus, for k < j, the rows of the group with those in between.
//
// This is closed testing (Goeman & Solari 2011) in which a set of rows is rejected
// as inliers alone where one of the K counts is too large. Counts of few extreme
// ranks are what a small share of outliers moves; the quantiles are those of the exact
// law, so that nothing is drawn at random.
//
// What holds of all groups at once says little of a small one. A group chosen without
// a look at its rows can be bounded by its own ranks, with delta divided by the
// number of such groups. Bounds that hold at once add up over groups that share no
// row: all rows have as many outliers as these together, or more.
//
// References: Song, Jin & Candès (2026), Everywhere Valid Bounds on False Discovery
// Proportions in Conformal Inference; Magnani, Sesia & Solari (2023), Collective
// Outlier Detection and Enumeration with Conformalized Closed Testing; Gazin,
// Blanchard & Roquain (2024), Transductive Conformal Inference with Adaptive Scores.
func (r Ranks) OutlierBounds(delta float64) (OutlierBounds, error) {
	if err := checkLevel("delta", delta); err != nil {
		return OutlierBounds{}, err
	}
	n, rows := len(r)-1, r.Rows()
	at := hypothesis.Looks(n)
	b := OutlierBounds{n, rows, rows, at, make([]int, len(at))}
	seen := make([]int, len(at))
	for j, k := range at {
		seen[j] = r.below(k)
	}
	// Quantiles fall with the number of inliers, so that these fall to the largest
	// number that is left as it is.
	for last := -1; last != b.inliers; {
		last = b.inliers
		for j, k := range at {
			b.most[j] = hypothesis.Misses{Allowed: k, Calibration: n}.Critical(last, delta/float64(len(at))) - 1
			b.inliers = min(b.inliers, b.most[j]+rows-seen[j])
		}
	}
	return b, nil
}

// Outliers is how many outliers there are at least among the rows of a group, or
// among all.
func (b OutlierBounds) Outliers(group Ranks) int {
	return group.Rows() - b.among(group, len(group))
}

// FDP bounds the false discovery proportion: at most so large a share of the rows of
// a group, or of all, with p-values of at most p are inliers. It is 0 where there
// are none.
func (b OutlierBounds) FDP(group Ranks, p float64) float64 {
	k := max(0, min(len(group), int(math.Floor(p*float64(len(group))*(1+hypothesis.Slack)))))
	rows := group.below(k)
	if rows == 0 {
		return 0
	}
	return float64(b.among(group, k)) / float64(rows)
}

// among bounds the inliers among the rows of a group with the k least p-values.
func (b OutlierBounds) among(group Ranks, k int) int {
	if n, all := len(group)-1, group.Rows(); n != b.n || all > b.rows {
		panic(fmt.Sprintf("calibrate: a group of %d rows, of %d calibration rows, is no part of %d audited rows, of %d", all, n, b.rows, b.n))
	}
	rows := group.below(k)
	inliers := min(rows, b.inliers)
	for j, at := range b.looks {
		between := 0
		if at < k {
			between = rows - group.below(at)
		}
		inliers = min(inliers, b.most[j]+between)
	}
	return inliers
}
