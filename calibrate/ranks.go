package calibrate

import (
	"fmt"
	"math"
)

// Ranks counts audited rows by their p-value. With n calibration rows, Ranks has n+1 entries,
// and entry k is the number of rows with the p-value (k+1)/(n+1). Discoveries, OutlierBounds
// and Shift depend only on these counts, so the Ranks of parts of the rows can be merged. A
// group of rows, such as a folder, has its own Ranks.
//
// Guarantees hold if rows are drawn independently, and if the inliers among the audited rows
// are exchangeable with the calibration rows. Copies of a row and frames of a video are not
// independent. If the model was trained on the calibration rows, new rows look like outliers.
// If scores tie, p-values are larger, and guarantees still hold.
//
// The ranks of the inliers then have a known joint distribution. All orders of the inliers
// and the calibration rows are equally likely, so the ranks are draws from a Pólya urn. If
// c of the first t inliers have rank k, the next inlier has rank k with probability
// (1+c)/(n+1+t).
//
// Choose groups without a look at their rows, for example by folder. A group may also be a
// predicted class. Its rows are exchangeable only with calibration rows of the same
// predicted class, so their p-values must come from these calibration rows. With other
// p-values, only the OutlierBounds of all rows are valid for such a group.
//
// Reference: Bates, Candès, Lei, Romano & Sesia (2023), Testing for Outliers with Conformal
// p-values.
type Ranks []int

// NewRanks returns empty Ranks for p-values of n calibration rows.
func NewRanks(n int) Ranks { return make(Ranks, n+1) }

// Add counts a row by its p-value from Conformal. It returns an error if n calibration rows
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
func (r Ranks) Rows() int { return r.countBelow(len(r)) }

// countBelow counts the rows with the k smallest possible p-values.
func (r Ranks) countBelow(k int) int {
	sum := 0
	for _, count := range r[:k] {
		sum += count
	}
	return sum
}
