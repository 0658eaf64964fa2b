package report

import (
	"fmt"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
)

// addConditional adds a table of the tests whether a coverage holds in parts of the rows, with
// the worst part of each kind.
func (b *block) addConditional(e *evaluate.Evaluation, kind string, target int) {
	var tests []evaluate.ConditionalTest
	for _, t := range e.Conditional {
		if t.Kind == kind && t.Target == target {
			tests = append(tests, t)
		}
	}
	if tests == nil {
		return
	}
	worst := mapSlice(tests, func(t evaluate.ConditionalTest) evaluate.Rate { return t.Worst })
	g := grid{Title: fmt.Sprintf("Conditional coverage at level %g", e.Level), Name: "conditional coverage"}
	g.addText("test", mapSlice(tests, func(t evaluate.ConditionalTest) string { return testName(t.Part) }))
	g.addText("verdict", mapSlice(tests, func(t evaluate.ConditionalTest) string { return withSpaces(t.Verdict) }))
	g.addText("worst part", mapSlice(worst, func(r evaluate.Rate) string {
		if r.Name == "" {
			return "–"
		}
		return r.Name
	}))
	g.addRatesAndCounts("coverage", "fraction of the rows of the worst part that are covered", worst)
	g.addNumbers("p-value", "adjusted for the number of all parts that are tested (Holm)", mapSlice(worst, func(r evaluate.Rate) float64 { return *r.AdjustedPValue }), func(x float64) string { return display.Number(x, 2) })
	b.Tables = append(b.Tables, g)
	for _, t := range tests {
		switch {
		case t.ERT == nil:
		case t.ERT.Deviation < .0005: // 0.0 percentage points, or less than 0 by chance
			b.addSentence("ERT: a forest finds no deviation of the coverage from the level (Brier score %s)", display.Fixed(t.ERT.ExcessRisk, 4))
		default:
			b.addSentence("ERT: as far as a forest can predict it, coverage deviates from the level by %s percentage points on average (Brier score %s)", display.Fixed(100*t.ERT.Deviation, 1), display.Fixed(t.ERT.ExcessRisk, 4))
		}
	}
}

// testName returns the words for a kind of parts, as in evaluate.ConditionalTest.
func testName(part string) string {
	switch part {
	case "decile":
		return "decile of the prediction"
	case "width":
		return "width of the interval"
	case "size":
		return "size of the set"
	case "columns":
		return "region of the columns"
	case "predicted_misses":
		return "most predicted misses"
	case "slab":
		return "worst slab"
	}
	return withSpaces(part)
}
