package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// OutlierBounds bounds the number of inliers in any group of audited rows, and among the rows
// of a group with the smallest p-values. All bounds hold at once with the requested
// probability, so groups and p-values may be chosen after a look at the data. The methods
// panic if a group cannot be a part of the audited rows. They also panic on the zero value.
type OutlierBounds struct {
	n, rows    int   // number of calibration rows and of audited rows
	inliers    int   // upper bound on the inliers among all audited rows
	looks      []int // ranks k for which the rows with a p-value of at most k/(n+1) are counted
	maxInliers []int // upper bound on the inliers among these rows, for each rank
}

// OutlierBounds bounds the number of inliers among the rows. The bounds hold with probability
// 1−delta over draws of the calibration rows and the audited rows. delta must be in (0,1).
//
// Let m₀ of the m audited rows be inliers. The number of inliers with a p-value of at most
// k/(n+1) has a beta-binomial distribution with Beta(k, n+1−k) (see Ranks). Let c(k, m₀) be
// the quantile of this number at 1−delta/K, for each of K values of k: about (n+1)/2, (n+1)/4,
// …, 1. With probability at least 1−delta, none of the K numbers exceeds its quantile. If R(k)
// is the number of rows with a p-value of at most k/(n+1), it follows that
//
//	m₀ ≤ m̂ = max {i : i ≤ min_k c(k, i) + m − R(k)}
//
// The same quantiles bound the number of inliers of a group with a p-value of at most
// j/(n+1). For each k ≥ j, this number is at most c(k, m̂). For each k < j, it is at most
// c(k, m̂) plus the number of rows of the group with a p-value above k/(n+1) and at most
// j/(n+1).
//
// This is closed testing (Goeman & Solari 2011): the hypothesis that a set of rows has only
// inliers is rejected if one of the K counts is too large. Counts at small k detect a small
// fraction of outliers. The quantiles are exact, so no random numbers are needed.
//
// Bounds that hold for all groups at once are weak for a small group. A group that was chosen
// without a look at its rows can have better bounds: call OutlierBounds on its own Ranks, with
// delta divided by the number of such groups. Lower bounds on the outliers of groups can be
// added if the bounds hold at once and the groups share no rows. The sum is a lower bound for
// all rows.
//
// References: Song, Jin & Candès (2026), Everywhere Valid Bounds on False Discovery
// Proportions in Conformal Inference; Magnani, Sesia & Solari (2023), Collective Outlier
// Detection and Enumeration with Conformalized Closed Testing; Gazin, Blanchard & Roquain
// (2024), Transductive Conformal Inference with Adaptive Scores.
func (r Ranks) OutlierBounds(delta float64) (OutlierBounds, error) {
	if err := checkLevel("delta", delta); err != nil {
		return OutlierBounds{}, err
	}
	n, rows := len(r)-1, r.Rows()
	looks := hypothesis.Looks(n)
	b := OutlierBounds{n, rows, rows, looks, make([]int, len(looks))}
	seen := make([]int, len(looks))
	for j, k := range looks {
		seen[j] = r.countBelow(k)
	}
	// Fewer inliers have smaller quantiles, so the iteration descends to the largest fixed
	// point.
	for last := -1; last != b.inliers; {
		last = b.inliers
		for j, k := range looks {
			b.maxInliers[j] = hypothesis.Misses{Allowed: k, Calibration: n}.Critical(last, delta/float64(len(looks))) - 1
			b.inliers = min(b.inliers, b.maxInliers[j]+rows-seen[j])
		}
	}
	return b, nil
}

// Outliers returns a lower bound on the number of outliers in a group, or among all rows.
func (b OutlierBounds) Outliers(group Ranks) int {
	return group.Rows() - b.maxInliersAmong(group, len(group))
}

// FDP returns an upper bound on the false discovery proportion of a group: the fraction of
// inliers among its rows with p-values of at most p. The group may consist of all audited
// rows. FDP returns 0 if the group has no such rows.
func (b OutlierBounds) FDP(group Ranks, p float64) float64 {
	k := max(0, min(len(group), int(math.Floor(p*float64(len(group))*(1+hypothesis.Slack)))))
	inliers := b.maxInliersAmong(group, k) // checks the group
	if rows := group.countBelow(k); rows > 0 {
		return float64(inliers) / float64(rows)
	}
	return 0
}

// maxInliersAmong returns an upper bound on the inliers among the rows of a group with the k
// smallest possible p-values.
func (b OutlierBounds) maxInliersAmong(group Ranks, k int) int {
	if n, all := len(group)-1, group.Rows(); n != b.n || all > b.rows {
		panic(fmt.Sprintf("calibrate: a group of %d rows with %d calibration rows cannot be a part of %d audited rows with %d calibration rows", all, n, b.rows, b.n))
	}
	rows := group.countBelow(k)
	inliers := min(rows, b.inliers)
	for j, look := range b.looks {
		between := 0
		if look < k {
			between = rows - group.countBelow(look)
		}
		inliers = min(inliers, b.maxInliers[j]+between)
	}
	return inliers
}
