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

// ReusedError refuses calibration rows all of which were fitted on.
type ReusedError struct{ Rows int }

func (e *ReusedError) Error() string {
	return fmt.Sprintf("all %s calibration rows are among the rows to fit on: scores of rows that were fitted on say nothing of others; calibrate with other rows, or have some split off", display.Count(e.Rows))
}

// ReusedNote reports calibration rows that were fitted on, and what follows from it.
func ReusedNote(reused, calibration int) string {
	return rows.CountOf(reused, calibration, "calibration row") + " were fitted on too: other rows are flagged more often than they should be, and intervals and sets cover less often"
}

// Reused counts the calibration rows that equal a row fitted on, 0 if that is no more
// than chance explains. All hashes are sorted, and of rows that were given apart.
//
// If no row was copied, a calibration row equals one fitted on as often as a row fitted
// on equals another: rows of both are drawn alike, and only then rows say how often
// equal ones come. Rows of which some were copied before both were drawn are as
// unlikely together as [Copied] says.
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

// ReusedOfSplit is Reused of rows that were drawn apart from one set of rows. Those can
// only be copies of each other if the set held copies.
func ReusedOfSplit(fit, cal []uint64) int {
	if Copied(merged(fit, cal)) {
		return common(fit, cal)
	}
	return 0
}

// Copied says that rows equal each other in a way in which draws by chance do not. If
// values come k times each by chance, others come k−1 and k+1 times: of values drawn
// independently with any probabilities, let N(k) be how many are expected to come k times.
// Then, by the inequality of Cauchy and Schwarz, N(k)² ≤ (k+1)/k · N(k−1) · N(k+1).
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

// Repeated counts the calibration rows that equal one before them, 0 if that is no more
// than chance explains: if no row was copied, those of fewer rows equal each other at most
// as often as rows fitted on do.
func Repeated(fit, cal []uint64) (n int) {
	for _, times := range runs(cal) {
		n += times - 1
	}
	known := len(cal) <= len(fit) && !Copied(fit) // how often is
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

// merged is both lists as one that is sorted.
func merged(a, b []uint64) []uint64 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return all
}

// runs are the distinct numbers of a sorted list, and how often each comes.
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
