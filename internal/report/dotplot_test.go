package report

import (
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/ood/compare"
)

// TestDotplot checks that a method below 0.5 is drawn as a hollow dot at the end of the
// axis, and that the controls follow the best methods.
func TestDotplot(t *testing.T) {
	var methods []compare.MethodReport
	for i := range 20 {
		methods = append(methods, compare.MethodReport{Name: fmt.Sprint(i), Summaries: compare.Summaries{AUROC: compare.Summary{Mean: .95 - .02*float64(i)}}})
	}
	methods = append(methods, compare.MethodReport{Name: "random", Control: true, Summaries: compare.Summaries{AUROC: compare.Summary{Mean: .4}}})
	d := newDotplot(methods, make([]methodRow, len(methods)))
	if n := len(d.Rows); n != maxDots+1 || d.Rows[maxDots].Name != "random" || d.Rows[maxDots].Method != 20 {
		t.Fatalf("%d rows: %+v", n, d.Rows)
	}
	if r := d.Rows[maxDots]; !r.Below || r.At != d.Ticks[0].At {
		t.Errorf("the control is %+v", r)
	}
	if r := d.Rows[0]; r.Below || r.At <= d.Ticks[4].At || r.At >= d.Ticks[5].At {
		t.Errorf("0.95 is drawn at %v, between the ticks %+v", r.At, d.Ticks)
	}
}
