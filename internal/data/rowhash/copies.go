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

// ReusedError reports that all calibration rows are fit rows.
type ReusedError struct{ Rows int }

func (e *ReusedError) Error() string {
	return fmt.Sprintf("all %s calibration rows are among the rows to fit on: scores of rows that were fitted on say nothing of others; calibrate with other rows, or have some split off", display.Count(e.Rows))
}

// ReusedNote returns a note about calibration rows that are fit rows, and what follows from
// it.
func ReusedNote(reused, calibration int) string {
	return rows.CountOf(reused, calibration, "calibration row") + " were fitted on too: other rows are flagged more often than they should be, and intervals and sets cover less often"
}

// Reused returns the number of calibration rows that equal a fit row, or 0 if chance explains
// it. All hashes are sorted. The rows were given separately.
//
// If no row was copied, a calibration row equals a fit row as often as a fit row equals
// another, because both are drawn from the same source. Only then do rows show how often equal
// rows occur. [Copied] detects copies that were made before both sets were drawn.
func Reused(fit, cal []uint64) int {
	both := common(fit, cal)
	chance := atMost(0, len(fit))
	switch {
	case !Copied(fit):
		chance = atMost(repeated(fit), len(fit))
	case !Copied(cal):
		chance = atMost(repeated(cal), len(cal))
	}
	if hypothesis.Binomial(both, len(cal), chance) < Doubt || !Copied(fit) && !Copied(cal) && Copied(merged(fit, cal)) {
		return both
	}
	return 0
}

// ReusedOfSplit is Reused for rows that were split off one set. They can be copies of each
// other only if that set contained copies.
func ReusedOfSplit(fit, cal []uint64) int {
	if Copied(merged(fit, cal)) {
		return common(fit, cal)
	}
	return 0
}

// Copied reports whether rows equal each other more often than independent draws can explain.
// If some values occur k times by chance, others occur k−1 and k+1 times: for values that are
// drawn independently with any probabilities, let N(k) be the expected number of values that
// occur k times. Then, by the Cauchy–Schwarz inequality, N(k)² ≤ (k+1)/k · N(k−1) · N(k+1).
func Copied(sorted []uint64) bool {
	times := map[int]int{}
	for _, n := range runs(sorted) {
		times[n]++
	}
	for k, n := range times {
		if k == 1 {
			continue
		}
		below, above := float64(times[k-1]+1), float64(times[k+1]+1)
		if float64(n) > 10+4*math.Sqrt(below*above*float64(k+1)/float64(k)) {
			return true
		}
	}
	return false
}

// Repeated returns the number of calibration rows that equal an earlier one, or 0 if chance
// explains it: without copies, the rows of a smaller set equal each other at most as often as
// fit rows do.
func Repeated(fit, cal []uint64) (n int) {
	for _, times := range runs(cal) {
		n += times - 1
	}
	known := len(cal) <= len(fit) && !Copied(fit) // whether fit rows show how often equal rows occur
	if Copied(cal) || known && hypothesis.Binomial(n, len(cal), atMost(repeated(fit), len(fit))) < Doubt {
		return n
	}
	return 0
}

// repeated counts the rows that equal another.
func repeated(sorted []uint64) (n int) {
	for _, times := range runs(sorted) {
		if times > 1 {
			n += times
		}
	}
	return n
}

// common counts the rows of the second list that equal one of the first.
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

// merged returns both lists as one sorted list.
func merged(a, b []uint64) []uint64 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return all
}

// runs returns the distinct numbers of a sorted list, and how often each occurs.
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
