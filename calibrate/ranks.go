package calibrate

import (
	"fmt"
	"math"
)

// Ranks counts audited rows by their p-value: of n calibration rows, entry k of
// n+1 is the number of rows with the p-value (k+1)/(n+1). All that is said of many
// rows at once follows from it, so that the Ranks of parts, added up, are those of
// the whole, whatever the parts. Those of a group, such as a folder, count its rows
// alone.
//
// What is promised holds where the rows that are no outliers are exchangeable with
// the calibration rows, and either were drawn apart from each other: copies of a row,
// or frames of a video, count as many where they are one, and rows that the network
// was trained on make outliers of those that it was not. Where scores tie p-values
// are larger, and promises hold all the more.
//
// The inliers among the audited rows then have a known joint law. Any order of them
// and the calibration rows is as likely as any other, so that their ranks are drawn
// from a Pólya urn: after t ranks, of which c were k, the next is k with probability
// (1+c)/(n+1+t).
//
// A group is to be chosen without a look at its rows, as folders are. Rows of one
// predicted class are not like the calibration rows but like those of that predicted
// class, which their p-values are to be of for what is said of them alone, except by
// OutlierBounds.
//
// Reference: Bates, Candès, Lei, Romano & Sesia (2023), Testing for Outliers with
// Conformal p-values.
type Ranks []int

// NewRanks has no rows yet, whose p-values are of n calibration rows.
func NewRanks(n int) Ranks { return make(Ranks, n+1) }

// Add counts a row with a p-value of Conformal. One that these calibration rows
// cannot give is an error.
func (r Ranks) Add(p float64) error {
	k := math.Round(p * float64(len(r)))
	if !(k >= 1 && k <= float64(len(r))) || math.Abs(p*float64(len(r))-k) > 1e-6*k {
		return fmt.Errorf("%v is no p-value of %d calibration rows", p, len(r)-1)
	}
	r[int(k)-1]++
	return nil
}

// Merge adds the rows of other Ranks, of as many calibration rows.
func (r Ranks) Merge(other Ranks) error {
	if len(r) != len(other) {
		return fmt.Errorf("ranks among %d calibration rows cannot be added to those among %d", len(other)-1, len(r)-1)
	}
	for k, count := range other {
		r[k] += count
	}
	return nil
}

// Rows is how many rows are counted.
func (r Ranks) Rows() int { return r.below(len(r)) }

// below counts the rows with the k least p-values.
func (r Ranks) below(k int) int {
	sum := 0
	for _, count := range r[:k] {
		sum += count
	}
	return sum
}
