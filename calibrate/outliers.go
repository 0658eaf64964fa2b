package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// OutlierBounds bounds the number of inliers in any group of audited rows, and among the rows
// of a group with the smallest p-values. All bounds hold at once with the requested
// probability, so groups and p-values may be chosen after a look at the data. The methods
// panic if a group cannot be a part of the audited rows, and on the zero value.
type OutlierBounds struct {
	n, rows    int   // number of calibration rows and of audited rows
	inliers    int   // upper bound on the inliers among all audited rows
	looks      []int // ranks k for which the rows with a p-value of at most k/(n+1) are counted
	maxInliers []int // upper bound on the inliers among these rows, for each rank
}

// OutlierBounds bounds the inliers among the rows, with probability 1−delta, in (0,1), over
// draws of the calibration rows and the audited rows.
//
// If there are m₀ inliers, the number with a p-value of at most k/(n+1) has a beta-binomial
// distribution, with Beta(k, n+1−k), by the distribution of Ranks. Take its quantile c(k, m₀)
// at 1−delta/K for K values of k, about (n+1)/2, (n+1)/4, … 1. The probability that the number
// exceeds any of the K quantiles is at most delta. Otherwise, if R(k) rows have such a
// p-value,
//
//	m₀ ≤ m̂ = max {i : i ≤ min_k c(k, i) + m − R(k)}
//
// In each group, the inliers with a p-value of at most j/(n+1) are at most c(k, m̂) plus, for
// k < j, the rows of the group with p-values between the two.
//
// This is closed testing (Goeman & Solari 2011): the hypothesis that a set of rows has only
// inliers is rejected if one of the K counts is too large. Counts of few extreme ranks react
// to a small fraction of outliers. The quantiles are exact, so no random numbers are needed.
//
// Bounds for all groups at once are weak for a small group. A group that was chosen without a
// look at its rows can be bounded by its own ranks, with delta divided by the number of such
// groups. Bounds that hold at once can be added over groups that share no row: there are at
// least as many outliers in all rows as in these groups together.
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
		seen[j] = r.below(k)
	}
	// Quantiles decrease with the number of inliers, so the iteration descends to the largest
	// fixed point.
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

// FDP returns an upper bound on the false discovery proportion: the fraction of inliers among
// the rows, of a group or of all, with p-values of at most p. It is 0 if there are no such
// rows.
func (b OutlierBounds) FDP(group Ranks, p float64) float64 {
	k := max(0, min(len(group), int(math.Floor(p*float64(len(group))*(1+hypothesis.Slack)))))
	rows := group.below(k)
	if rows == 0 {
		return 0
	}
	return float64(b.maxInliersAmong(group, k)) / float64(rows)
}

// among returns an upper bound on the inliers among the rows of a group with the k smallest
// possible p-values.
func (b OutlierBounds) maxInliersAmong(group Ranks, k int) int {
	if n, all := len(group)-1, group.Rows(); n != b.n || all > b.rows {
		panic(fmt.Sprintf("calibrate: a group of %d rows with %d calibration rows cannot be a part of %d audited rows with %d calibration rows", all, n, b.rows, b.n))
	}
	rows := group.below(k)
	inliers := min(rows, b.inliers)
	for j, look := range b.looks {
		between := 0
		if look < k {
			between = rows - group.below(look)
		}
		inliers = min(inliers, b.maxInliers[j]+between)
	}
	return inliers
}
