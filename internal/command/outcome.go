package command

import (
	"cmp"
	"fmt"
	"io"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/evidence"
)

// outcome is what came out of a prediction, in a few numbers.
type outcome struct {
	rows, flagged, accepted int
	sets, inSets            int // rows that have a set of classes, and the classes in all of them
	pValues                 [evidence.Bins]int
}

func (o *outcome) add(p attach.Prediction) {
	o.rows++
	o.pValues[evidence.Bin(p.PValue, evidence.Bins)]++
	if p.Flag {
		o.flagged++
	}
	if p.Accept {
		o.accepted++
	}
	if p.Set != nil {
		o.sets++
		o.inSets += len(p.Set)
	}
}

// flags is a sentence on how many rows were flagged at alpha, 0 for the
// bundle's own, and how many of them would be by mistake; "" where none can be.
func (o *outcome) flags(b *attach.Bundle, alpha float64) string {
	alpha = cmp.Or(alpha, b.Calibration.Alpha)
	if b.Detector == nil || b.LeastPValue() > alpha {
		return ""
	}
	mistakes := float64(o.rows) * (1 - evidence.ExpectedCoverage(len(b.Calibration.OOD), alpha))
	expected := fmt.Sprintf("about %.0f", mistakes)
	if mistakes < .5 {
		expected = "fewer than 1"
	}
	return fmt.Sprintf("%d of %d flagged at alpha %g; %s would be by mistake if all were in-domain", o.flagged, o.rows, alpha, expected)
}

func (o *outcome) meanSet() float64 { return float64(o.inSets) / float64(o.sets) }

// say prints what came out.
func (o *outcome) say(w io.Writer, b *attach.Bundle, asked attach.PredictOptions) {
	if o.sets > 0 {
		fmt.Fprintf(w, "sets at level %g hold %.3g classes on average\n", cmp.Or(asked.Level, b.Calibration.Level), o.meanSet())
	}
	if flags := o.flags(b, asked.Alpha); flags != "" {
		fmt.Fprintln(w, flags)
	}
}
