package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/evidence"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// namedGroups is how many groups a note names.
const namedGroups = 5

// noteEndless says which intervals at level, 0 for the bundle's own, are endless
// for want of calibration rows: all of them or, where they are calibrated group
// by group, those of some of the groups.
func noteEndless(w io.Writer, b *attach.Bundle, level float64, groups []string) {
	if len(b.Calibration.Quantiles) == 0 {
		return
	}
	level = cmp.Or(level, b.Calibration.Level)
	endless := func(rows int) bool { return evidence.ExpectedCoverage(rows, 1-level) == 1 }
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

// silent says that nothing can be flagged at alpha, 0 for the bundle's own, for
// want of calibration rows; it is "" where something can.
func silent(b *attach.Bundle, alpha float64) string {
	alpha = cmp.Or(alpha, b.Calibration.Alpha)
	if b.Detector == nil || b.LeastPValue() <= alpha {
		return ""
	}
	return fmt.Sprintf("nothing can be flagged at alpha %g: with %s the least p-value is %.3g; it takes %d rows, or a larger --alpha",
		alpha, rows.Count(b.Calibration.NCal, "calibration row"), b.LeastPValue(), evidence.LeastRows(alpha))
}

// noteSilent prints what silent says.
func noteSilent(w io.Writer, b *attach.Bundle, alpha float64) {
	if says := silent(b, alpha); says != "" {
		fmt.Fprintln(w, "note: "+says)
	}
}
