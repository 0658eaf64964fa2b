package calibrate

import (
	"fmt"
	"math"
)

// Ranks counts audited rows by their p-value. With n calibration rows it has n+1 entries, and
// entry k is the number of rows with the p-value (k+1)/(n+1). All results for many rows at
// once follow from these counts, so the Ranks of parts can be merged into those of all rows.
// The Ranks of a group, such as a folder, count the rows of the group only.
//
// Guarantees hold if the inliers among the audited rows are exchangeable with the calibration
// rows, and rows are drawn independently. Copies of a row, or frames of a video, count as many
// rows although they are one. If the calibration rows were used to train the model, new rows
// look like outliers. If scores tie, p-values are larger, and guarantees still hold.
//
// The inliers among the audited rows then have a known joint distribution. Any order of these
// inliers and the calibration rows is equally likely, so their ranks are draws from a Pólya
// urn: after t ranks, c of them k, the next one is k with probability (1+c)/(n+1+t).
//
// Choose groups without a look at their rows, as folders are. Rows of one predicted class are
// exchangeable only with calibration rows of the same predicted class. For results about these
// rows alone, their p-values must be by predicted class, except for OutlierBounds.
//
// Reference: Bates, Candès, Lei, Romano & Sesia (2023), Testing for Outliers with Conformal
// p-values.
type Ranks []int

// NewRanks returns empty Ranks for p-values of n calibration rows.
func NewRanks(n int) Ranks { return make(Ranks, n+1) }

// Add counts a row with a p-value of Conformal. It returns an error if n calibration rows
// cannot give this p-value.
func (r Ranks) Add(p float64) error {
	k := math.Round(p * float64(len(r)))
	if !(k >= 1 && k <= float64(len(r))) || math.Abs(p*float64(len(r))-k) > 1e-6*k {
		return fmt.Errorf("%d calibration rows cannot give the p-value %v", len(r)-1, p)
	}
	r[int(k)-1]++
	return nil
}

// Merge adds the rows of other Ranks. It returns an error if the numbers of calibration rows
// differ.
func (r Ranks) Merge(other Ranks) error {
	if len(r) != len(other) {
		return fmt.Errorf("ranks of %d calibration rows cannot be merged into ranks of %d", len(other)-1, len(r)-1)
	}
	for k, count := range other {
		r[k] += count
	}
	return nil
}

// Rows returns the number of counted rows.
func (r Ranks) Rows() int { return r.below(len(r)) }

// below counts the rows with the k smallest possible p-values.
func (r Ranks) below(k int) int {
	sum := 0
	for _, count := range r[:k] {
		sum += count
	}
	return sum
}
