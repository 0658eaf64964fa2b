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

// notePromise says what calibrated numbers mean.
func notePromise(w io.Writer, word string, b *attach.Bundle) {
	promise := b.Promise()
	if b.Calibration.HeldOut == rows.SplitOff && b.Calibration.Reused == 0 {
		promise += "; where there are such rows, fit with --cal"
	}
	printf(w, "%s: %s\n", word, promise)
}

// namedGroups is how many groups a note names.
const namedGroups = 5

// noteEndless says which intervals are endless for want of calibration rows: all of
// them or, where they are calibrated group by group, those of some of the groups.
func noteEndless(w io.Writer, b *attach.Bundle, o attach.PredictOptions, groups []string) {
	if len(b.Calibration.Quantiles) == 0 {
		return
	}
	level := cmp.Or(o.Level, b.Calibration.Level)
	endless := func(rows int) bool {
		if o.IntervalScore == conformal.RCP {
			rows = hypothesis.Halved(rows)
		}
		return hypothesis.ExpectedCoverage(rows, 1-level) == 1
	}
	if b.Calibration.Groups == nil {
		if n := b.Calibration.NCal; endless(n) {
			printf(w, "note: intervals at level %g are endless: calibration rows are too few, %d\n", level, n)
		}
		return
	}
	rows := map[string]int{}
	for _, g := range b.Calibration.Groups {
		rows[g]++
	}
	var few []string
	for _, g := range slices.Compact(slices.Sorted(slices.Values(groups))) {
		if endless(rows[g]) {
			few = append(few, fmt.Sprintf("%.100q has %d", g, rows[g]))
		}
	}
	if len(few) == 0 {
		return
	}
	if more := len(few) - namedGroups; more > 0 {
		few = append(few[:namedGroups], fmt.Sprintf("and so on for %d more", more))
	}
	printf(w, "note: intervals at level %g are endless for groups with too few calibration rows: %s\n", level, strings.Join(few, ", "))
}

// leastPValue is the least that calibration rows so few allow, or 1 without a detector.
func leastPValue(b *attach.Bundle) float64 { return hypothesis.LeastPValue(len(b.Calibration.OOD)) }

// silent says what cannot be flagged for want of calibration rows, all or rows of
// some predicted classes; it is "" where all can.
func silent(b *attach.Bundle, o attach.PredictOptions) string {
	alpha := cmp.Or(o.Alpha, b.Calibration.Alpha)
	switch {
	case b.Detector == nil:
		return ""
	case leastPValue(b) <= alpha:
		few, classes, among := 0, max(b.Base.Outputs, 2), rankedAmong(b, o)
		for class := range classes {
			if among(class) < hypothesis.LeastRows(alpha) {
				few++
			}
		}
		if few == 0 {
			return ""
		}
		return fmt.Sprintf("nothing can be flagged at alpha %g of %d of %d predicted classes, each of fewer than %s", alpha, few, classes, rows.Count(hypothesis.LeastRows(alpha), "calibration row"))
	}
	return fmt.Sprintf("nothing can be flagged at alpha %g: with %s the least p-value is %.3g; it takes %s rows, or a larger --alpha",
		alpha, rows.Count(b.Calibration.NCal, "calibration row"), leastPValue(b), display.Count(hypothesis.LeastRows(alpha)))
}

// noteSilent prints what silent says.
func noteSilent(w io.Writer, b *attach.Bundle, o attach.PredictOptions) {
	if says := silent(b, o); says != "" {
		fmt.Fprintln(w, "note: "+says)
	}
}

// rankedAmong is how many calibration rows the score of a row is ranked among, by the
// row's predicted class.
func rankedAmong(b *attach.Bundle, o attach.PredictOptions) func(class int) int {
	if !o.FlagByClass {
		return func(int) int { return len(b.Calibration.OOD) }
	}
	counts := map[int]int{}
	for _, class := range b.Calibration.Predicted {
		counts[class]++
	}
	return func(class int) int { return counts[class] }
}

// noteSets says which classes all sets hold for want of calibration rows.
func noteSets(w io.Writer, b *attach.Bundle, o attach.PredictOptions) {
	level := cmp.Or(o.Level, b.Calibration.Level)
	always := func(rows int) bool { return hypothesis.ExpectedCoverage(rows, 1-level) == 1 }
	switch n := b.Calibration.NCal; {
	case o.Sets == "":
	case !o.ByClass && always(n):
		printf(w, "note: sets at level %g hold all classes: calibration rows are too few, %d\n", level, n)
	case o.ByClass:
		rows := make([]int, max(b.Base.Outputs, 2))
		for _, label := range b.Calibration.TrueClasses.Labels {
			rows[label]++
		}
		few := 0
		for _, n := range rows {
			if always(n) {
				few++
			}
		}
		if few > 0 {
			printf(w, "note: all sets at level %g hold %d of %d classes, which have too few calibration rows\n", level, few, len(rows))
		}
	}
}
