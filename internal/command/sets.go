package command

import (
	"cmp"
	"io"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

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

// noteAccepted says on what grounds rows are accepted, s, which is nil where that
// was not asked.
func (o *outcome) noteAccepted(w io.Writer, s *calibrate.Selective, share float64) {
	switch {
	case s == nil:
	case s.Rows == 0:
		printf(w, "note: nothing is accepted at an error of %g: among the %d calibration rows that are not flagged, errors are too many, or the rows too few, to be sure of it; "+
			"it takes %d rows without an error, and more with some\n", share, s.Of, s.Least)
	default:
		printf(w, "%d of %d accepted at an error of %g: those that are not flagged and whose largest probability, at temperature 1, is above %.6g; of the calibration rows that are not flagged %d of %d are, %d of them wrong\n",
			o.accepted, o.rows, share, s.Confidence, s.Rows, s.Of, s.Errors)
	}
}
