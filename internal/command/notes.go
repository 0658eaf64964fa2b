package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// noteGuarantee prints what the calibration guarantees. word is "note" or "warning".
func noteGuarantee(w io.Writer, word string, b *attach.Bundle) {
	guarantee := b.Guarantee()
	if b.Calibration.HeldOut == rows.SplitOff && b.Calibration.Reused == 0 {
		guarantee += "; pass held-out rows with --cal"
	}
	printf(w, "%s: %s\n", word, guarantee)
}

// maxNamedGroups is the maximum number of groups that a note names.
const maxNamedGroups = 5

// noteInfinite prints a note if too few calibration rows make intervals infinite. If
// intervals are calibrated by group, this concerns only the groups with too few rows. With
// weights, it depends on the row whether its interval is infinite.
func noteInfinite(w io.Writer, b *attach.Bundle, o attach.PredictOptions, groups []string) {
	if len(b.Calibration.Quantiles) == 0 || b.Calibration.Weights != nil {
		return
	}
	level := cmp.Or(o.Level, b.Calibration.Level)
	infinite := func(rows int) bool {
		if o.Side == "" && cmp.Or(o.IntervalScore, b.Calibration.IntervalScore) == conformal.RCP || o.Region == conformal.Ellipsoid {
			rows = hypothesis.Halved(rows)
		}
		return hypothesis.ExpectedCoverage(rows, 1-level) == 1
	}
	if b.Calibration.Groups == nil {
		if n := b.Calibration.IntervalRows(); infinite(n) {
			printf(w, "note: intervals at level %g are infinite with only %s\n", level, rows.Count(n, "calibration row"))
		}
		return
	}
	counts := map[string]int{}
	for _, g := range b.Calibration.Groups {
		counts[g]++
	}
	var groupsWithFew []string
	for _, g := range slices.Compact(slices.Sorted(slices.Values(groups))) {
		if infinite(counts[g]) {
			groupsWithFew = append(groupsWithFew, fmt.Sprintf("%.100q has %d", g, counts[g]))
		}
	}
	if len(groupsWithFew) == 0 {
		return
	}
	if more := len(groupsWithFew) - maxNamedGroups; more > 0 {
		groupsWithFew = append(groupsWithFew[:maxNamedGroups], fmt.Sprintf("and %d more groups", more))
	}
	printf(w, "note: intervals at level %g are infinite for groups with too few calibration rows: %s\n", level, strings.Join(groupsWithFew, ", "))
}

// leastPValue returns the smallest p-value that is possible with the number of calibration
// rows. Without a detector it is 1.
func leastPValue(b *attach.Bundle) float64 { return hypothesis.LeastPValue(len(b.Calibration.OOD)) }

// describeUnflaggable describes the rows that cannot be flagged because there are too few
// calibration rows. These are all rows, or the rows of some predicted classes. It returns
// "" if all rows can be flagged, if there is no detector, or if rows have weights, on which it
// then depends.
func describeUnflaggable(b *attach.Bundle, o attach.PredictOptions) string {
	alpha := cmp.Or(o.Alpha, b.Calibration.Alpha)
	switch {
	case b.Detector == nil || b.Calibration.Weights != nil:
		return ""
	case leastPValue(b) <= alpha:
		classesWithFew, classes, calibrationRows := 0, max(b.Base.Outputs, 2), calibrationRowsByClass(b, o)
		for class := range classes {
			if calibrationRows(class) < hypothesis.LeastRows(alpha) {
				classesWithFew++
			}
		}
		if classesWithFew == 0 {
			return ""
		}
		return fmt.Sprintf("at alpha %g nothing can be flagged in %d of %d predicted classes, because each has fewer than %s", alpha, classesWithFew, classes, rows.Count(hypothesis.LeastRows(alpha), "calibration row"))
	}
	return fmt.Sprintf("nothing can be flagged at alpha %g: with %s the smallest p-value is %.3g; calibrate on %s rows or choose a larger --alpha",
		alpha, rows.Count(b.Calibration.NCal, "calibration row"), leastPValue(b), display.Count(hypothesis.LeastRows(alpha)))
}

// noteUnflaggable prints the result of describeUnflaggable as a note.
func noteUnflaggable(w io.Writer, b *attach.Bundle, o attach.PredictOptions) {
	if text := describeUnflaggable(b, o); text != "" {
		fmt.Fprintln(w, "note: "+text)
	}
}

// calibrationRowsByClass returns a function from the predicted class of a row to the number
// of calibration rows that its score is compared with.
func calibrationRowsByClass(b *attach.Bundle, o attach.PredictOptions) func(class int) int {
	if !o.FlagByClass {
		return func(int) int { return len(b.Calibration.OOD) }
	}
	counts := map[int]int{}
	for _, class := range b.Calibration.Predicted {
		counts[class]++
	}
	return func(class int) int { return counts[class] }
}

// noteSets prints a note if there are too few calibration rows, so that all or some classes
// are in every prediction set.
func noteSets(w io.Writer, b *attach.Bundle, o attach.PredictOptions) {
	level := cmp.Or(o.Level, b.Calibration.Level)
	isInEverySet := func(rows int) bool { return hypothesis.ExpectedCoverage(rows, 1-level) == 1 }
	switch n := b.Calibration.NCal; {
	case o.Sets == "" || b.Calibration.Weights != nil:
	case !o.SetsByClass && isInEverySet(n):
		printf(w, "note: prediction sets at level %g hold all classes with only %s\n", level, rows.Count(n, "calibration row"))
	case o.SetsByClass:
		counts := make([]int, max(b.Base.Outputs, 2))
		for _, label := range b.Calibration.TrueClasses.Labels {
			counts[label]++
		}
		classesWithFew := 0
		for _, n := range counts {
			if isInEverySet(n) {
				classesWithFew++
			}
		}
		if classesWithFew > 0 {
			printf(w, "note: %d of %d classes are in every prediction set at level %g, because they have too few calibration rows\n", classesWithFew, len(counts), level)
		}
	}
}
