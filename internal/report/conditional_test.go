package report

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/evaluate"
)

// TestConditional checks that a text and a page show the conditional tests of each target, and no
// table for a target without tests.
func TestConditional(t *testing.T) {
	c := newCoverage(rand.New(rand.NewPCG(1, 1)), .9, 0, 0)
	e := &evaluate.Evaluation{Rows: 1000, Level: .9, Targets: []evaluate.Target{{Coverage: []evaluate.Coverage{c}}, {Coverage: []evaluate.Coverage{c}}}}
	worst := func(name string, count int, p float64) evaluate.Rate {
		r := newRate(name, .9, count, 100)
		r.AdjustedPValue = pointerTo(p)
		return r
	}
	e.Conditional = []evaluate.ConditionalTest{
		{Kind: "interval_coverage", Target: 1, Part: "columns", Verdict: "failed", Parts: 1, Failing: 1, Worst: worst("carat > 1.5 & <b>", 64, .0012)},
		{Kind: "interval_coverage", Target: 1, Part: "predicted_misses", Verdict: "too_few_rows", Parts: 1, Worst: worst("", 88, 1), ERT: &evaluate.ERT{Rows: 60, Deviation: .0391, ExcessRisk: .0042}},
		{Kind: "set_coverage", Part: "class", Verdict: "failed", Worst: worst("of sets", 1, 0)},
	}
	text := EvaluationText(e)
	for _, want := range []string{"region of the columns        failed", "too few rows", "carat > 1.5 & <b>", "0.0012", "by 3.9 percentage points on average (Brier score 0.0042)"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the text has %d times %q:\n%s", strings.Count(text, want), want, text)
		}
	}
	if strings.Contains(text, "of sets") {
		t.Error("the text shows a test of sets beside intervals")
	}
	e.Conditional[1].ERT.Deviation = -.0002
	if text := EvaluationText(e); strings.Contains(text, "-0.0 percentage") || !strings.Contains(text, "a forest finds no deviation") {
		t.Errorf("for an ERT below 0, the text is:\n%s", text)
	}
	page := renderPage(t, Evaluation("m.attach", "x.csv", e))
	checkPage(t, page)
	table := between(t, page, "<h3>Conditional coverage at level 0.9</h3>", "</table>")
	if !strings.Contains(table, "carat &gt; 1.5 &amp; &lt;b&gt;") || strings.Count(table, `class="forest off"`) != 1 || strings.Count(page, "<h3>Conditional coverage") != 1 {
		t.Errorf("the table is %s", table)
	}
}
