package rowhash

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// ReusedError reports that all calibration rows are also fit rows.
type ReusedError struct{ Rows int }

func (e *ReusedError) Error() string {
	return fmt.Sprintf("all %s calibration rows are among the rows to fit on: scores of rows that were fitted on say nothing of others; calibrate with other rows, or have some split off", display.Count(e.Rows))
}

// ReusedNote returns a note that some calibration rows were also fitted on. The note
// explains the consequences.
func ReusedNote(reused, calibration int) string {
	return rows.CountOf(reused, calibration, "calibration row") + " were fitted on too: other rows are flagged more often than they should be, and intervals and sets cover less often"
}

// Reused returns the number of calibration rows that equal a fit row, or 0 if chance
// explains this number. fit and cal are the sorted hashes of rows that were given
// separately.
//
// Without copies, a calibration row equals a fit row about as often as fit rows equal each
// other, because both come from the same source. A set that contains copies does not show
// how often rows are equal by chance, so the other set is used instead. If both sets
// contain copies, Reused assumes that rows are hardly ever equal by chance. If both sets
// look random but their union does not, rows were copied from one set to the other.
func Reused(fit, cal []uint64) int {
	both := common(fit, cal)
	chance := equalRateBound(0, len(fit))
	switch {
	case !Copied(fit):
		chance = equalRateBound(repeated(fit), len(fit))
	case !Copied(cal):
		chance = equalRateBound(repeated(cal), len(cal))
	}
	if hypothesis.Binomial(both, len(cal), chance) < Doubt || !Copied(fit) && !Copied(cal) && Copied(merged(fit, cal)) {
		return both
	}
	return 0
}

// ReusedOfSplit is like Reused, but for rows that were split off one set. Calibration rows
// can be copies of fit rows only if that set contained copies.
func ReusedOfSplit(fit, cal []uint64) int {
	if Copied(merged(fit, cal)) {
		return common(fit, cal)
	}
	return 0
}

// Copied reports whether rows equal each other more often than independent draws can
// explain. sorted contains the sorted hashes of the rows. Let N(k) be the expected number
// of distinct values that occur exactly k times in independent draws. For any distribution,
// the Cauchy–Schwarz inequality gives N(k)² ≤ (k+1)/k · N(k−1) · N(k+1). A count far above
// this limit shows that rows occur k times because they were copied.
func Copied(sorted []uint64) bool {
	counts := map[int]int{}
	for _, n := range runs(sorted) {
		counts[n]++
	}
	for k, n := range counts {
		if k == 1 {
			continue
		}
		below, above := float64(counts[k-1]+1), float64(counts[k+1]+1)
		if float64(n) > 10+4*math.Sqrt(below*above*float64(k+1)/float64(k)) {
			return true
		}
	}
	return false
}

// Repeated returns the number of calibration rows that equal an earlier calibration row, or
// 0 if chance may explain this number. Without copies, a calibration set that is not larger
// than the fit set has at most the same rate of equal rows.
func Repeated(fit, cal []uint64) (n int) {
	for _, times := range runs(cal) {
		n += times - 1
	}
	known := len(cal) <= len(fit) && !Copied(fit) // whether fit rows show how often rows are equal by chance
	if Copied(cal) || known && hypothesis.Binomial(n, len(cal), equalRateBound(repeated(fit), len(fit))) < Doubt {
		return n
	}
	return 0
}

// repeated counts the rows that equal another row.
func repeated(sorted []uint64) (n int) {
	for _, times := range runs(sorted) {
		if times > 1 {
			n += times
		}
	}
	return n
}

// common counts the hashes in second that also occur in first. Both lists are sorted.
func common(first, second []uint64) (n int) {
	i := 0
	for hash, times := range runs(second) {
		for i < len(first) && first[i] < hash {
			i++
		}
		if i < len(first) && first[i] == hash {
			n += times
		}
	}
	return n
}

// merged returns the hashes of both lists in one sorted list.
func merged(a, b []uint64) []uint64 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return all
}

// runs iterates over the distinct numbers of a sorted list and how often each occurs.
func runs(sorted []uint64) iter.Seq2[uint64, int] {
	return func(yield func(uint64, int) bool) {
		for i := 0; i < len(sorted); {
			j := i + 1
			for j < len(sorted) && sorted[j] == sorted[i] {
				j++
			}
			if !yield(sorted[i], j-i) {
				return
			}
			i = j
		}
	}
}
