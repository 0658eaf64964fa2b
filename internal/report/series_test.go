package report

import (
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/evaluate"
)

// TestSeriesBlock checks what the text and the page show of a series.
func TestSeriesBlock(t *testing.T) {
	worst := &evaluate.SeriesWindow{Coverage: .5, First: "<b>May", Last: "June"}
	e := &evaluate.Evaluation{Rows: 900, CalibrationRows: 90, Targets: []evaluate.Target{{}}, Series: []evaluate.Series{{
		Rows: 900, LeftOut: 2, Level: .9, First: "1 May", Last: "9 June", Window: 200, Waiting: 5, Ends: []int{199, 550, 899}, WorstByChance: pointerTo(.75),
		Monitors: []evaluate.SeriesMonitor{{Kind: "errors", Evidence: 123, Alarm: "3 May"}, {Kind: "inputs", Evidence: 1.5}},
		Methods: []evaluate.SeriesMethod{
			{Name: "fixed", Coverage: .8, Worst: worst, Local: []float64{.9, .5, .8}, MeanWidth: pointerTo(1.25), MedianWidth: pointerTo(1), Winkler: pointerTo(2.5)},
			{Name: "rolling", Coverage: .88, Worst: worst, Local: []float64{.9, .6, .9}, MeanWidth: pointerTo(1.5), MedianWidth: pointerTo(1.5), Winkler: pointerTo(2)},
			{Name: "aci", Step: .005, Coverage: .9, Bound: pointerTo(.02), Worst: worst, Local: []float64{.9, .7, .9}, Infinite: 7},
			{Name: "dtaci", Problem: "there are no scores"},
			{Name: "pid", Coverage: .91, Bound: pointerTo(.95), Worst: worst, Local: []float64{.9, .8, .9}},
		},
	}}}
	text := EvaluationText(e)
	for _, want := range []string{
		"along time       coverage  worst 200 rows  guaranteed  mean width  median width  Winkler score  infinite\n",
		"fixed              80.0 %          50.0 %           –        1.25             1            2.5         0\n",
		"aci, step 0.005    90.0 %          50.0 %    ≥ 88.0 %           –             –              –         7\n",
		"dtaci                   –               –           –           –             –              –         –\n",
		"pid                91.0 %          50.0 %           –           –             –              –         0\n",
		"Fixed intervals cover least from <b>May to June\n",
		"the worst 200 rows would be covered 75.0 % or more (99 % confidence)\n",
		"A drift monitor of the errors alarms at 3 May (largest evidence 120)\n",
		"A drift monitor of the inputs does not alarm (largest evidence 1.5)\n",
		"dtaci: there are no scores\n",
		"Left out: 2 rows about which",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	page := renderPage(t, Evaluation("m.attach", "rows.csv", e))
	checkPage(t, page)
	for _, want := range []string{"after up to 4 later rows", "Coverage of 200 successive rows", `<i class="s1">rolling</i>`, "<title>pid</title>", "&lt;b&gt;May"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, `class="curve c `); n != 4 {
		t.Errorf("%d curves", n)
	}
}
