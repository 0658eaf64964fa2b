package report

import (
	"cmp"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// seriesBlock shows the coverage of intervals along time.
func seriesBlock(e *evaluate.Evaluation, s *evaluate.Series) block {
	name := ""
	if len(e.Series) > 1 {
		name = TargetName(e, s.Target)
	}
	b := block{Title: "Coverage along time"}
	if name != "" {
		b.Title += ", " + name
	}
	known := "before the next row"
	if s.Waiting > 1 {
		known = fmt.Sprintf("after up to %s", rows.Count(s.Waiting-1, "later row"))
	}
	b.Lead = fmt.Sprintf("%s from %s to %s, at level %g. The target of a row is known %s. Adaptive methods start with the calibration rows and use each target when it is known.",
		rows.Count(s.Rows, "row"), s.First, s.Last, s.Level, known)
	number := func(get func(m evaluate.SeriesMethod) float64) []float64 { return mapSlice(s.Methods, get) }
	orMissing := func(get func(m evaluate.SeriesMethod) float64) []float64 {
		return number(func(m evaluate.SeriesMethod) float64 {
			if m.Problem != "" {
				return math.NaN()
			}
			return get(m)
		})
	}
	g := grid{Title: fmt.Sprintf("Intervals at level %g", s.Level), Name: cmp.Or(name, "along time")}
	g.addText("intervals", mapSlice(s.Methods, seriesName))
	g.addNumbers("coverage", "fraction of the rows that are covered", orMissing(func(m evaluate.SeriesMethod) float64 { return m.Coverage }), display.Percent)
	g.addNumbers("worst "+rows.Count(s.Window, "row"), "coverage of the successive rows that are covered least", number(func(m evaluate.SeriesMethod) float64 {
		if m.Worst == nil {
			return math.NaN()
		}
		return m.Worst.Coverage
	}), display.Percent)
	g.addNumbers("guaranteed", "the least coverage that is possible for so many rows, whatever they are", number(func(m evaluate.SeriesMethod) float64 {
		if m.Bound == nil || *m.Bound >= s.Level {
			return math.NaN()
		}
		return s.Level - *m.Bound
	}), func(x float64) string { return "≥ " + display.Percent(x) })
	g.addNumbers("mean width", "", number(func(m evaluate.SeriesMethod) float64 { return orNaN(m.MeanWidth) }), formatFourDigits)
	g.addNumbers("median width", "", number(func(m evaluate.SeriesMethod) float64 { return orNaN(m.MedianWidth) }), formatFourDigits)
	g.addNumbers("Winkler score", "mean width plus a penalty for misses; lower is better", number(func(m evaluate.SeriesMethod) float64 { return orNaN(m.Winkler) }), formatFourDigits)
	for _, special := range []struct {
		name, title string
		count       func(m evaluate.SeriesMethod) int
	}{
		{"infinite", "intervals that are infinite; they have no width and no Winkler score", func(m evaluate.SeriesMethod) int { return m.Infinite }},
		{"empty", "intervals that are empty", func(m evaluate.SeriesMethod) int { return m.Empty }},
	} {
		sum := 0
		for _, m := range s.Methods {
			sum += special.count(m)
		}
		if sum > 0 {
			g.addNumbers(special.name, special.title, orMissing(func(m evaluate.SeriesMethod) float64 { return float64(special.count(m)) }), formatWhole)
		}
	}
	b.Tables = []grid{g}
	fixed := s.Methods[0]
	if fixed.Worst != nil {
		b.addSentence("Fixed intervals cover least from %s to %s", fixed.Worst.First, fixed.Worst.Last)
	}
	if s.WorstByChance != nil {
		b.addSentence("If their misses were at random times, the worst %s would be covered %s or more (99 %% confidence)", rows.Count(s.Window, "row"), display.Percent(*s.WorstByChance))
	}
	for _, m := range s.Monitors {
		outcome := "does not alarm"
		if m.Alarm != "" {
			outcome = "alarms at " + m.Alarm
		}
		b.addSentence("A drift monitor of the %s %s (largest evidence %s)", m.Kind, outcome, display.Number(m.Evidence, 2))
	}
	for _, m := range s.Methods {
		if m.Problem != "" {
			b.addSentence("%s: %s", m.Name, m.Problem)
		}
	}
	if s.LeftOut > 0 {
		b.addSentence("Left out: %s about which the interval model knows nothing", rows.Count(s.LeftOut, "row"))
	}
	if len(s.Ends) > 1 {
		b.Charts = append(b.Charts, seriesChart(s))
	}
	return b
}

// seriesName returns the name of a method with its step.
func seriesName(m evaluate.SeriesMethod) string {
	if m.Step > 0 {
		return fmt.Sprintf("%s, step %s", m.Name, display.Number(m.Step, 2))
	}
	return m.Name
}

// seriesChart draws the coverage of windows of successive rows.
func seriesChart(s *evaluate.Series) chart {
	low := s.Level
	for _, m := range s.Methods {
		for _, coverage := range m.Local {
			low = min(low, coverage)
		}
	}
	x, y := span{float64(s.Ends[0] + 1), float64(s.Ends[len(s.Ends)-1] + 1)}, span{math.Floor(10*low+1e-9) / 10, 1}
	c := newChart("row in the order of time", fmt.Sprintf("coverage of the last %d rows", s.Window), x, y, chartWidth, 5, 5)
	c.Title, c.Dashed = fmt.Sprintf("Coverage of %d successive rows", s.Window), c.svgPath([]point{{x.low, s.Level}, {x.high, s.Level}})
	c.Note = fmt.Sprintf("Dashed: level %g.", s.Level)
	// Curves and keys have colours of different lists, which these are in both.
	colours := [...]struct{ line, key int }{{1, 0}, {2, 1}, {3, 3}, {6, 5}, {5, 4}}
	for i, m := range s.Methods {
		if m.Problem != "" {
			continue
		}
		points := make([]point, len(m.Local))
		for k, coverage := range m.Local {
			points[k] = point{float64(s.Ends[k] + 1), coverage}
		}
		c.Lines = append(c.Lines, methodCurve{Method: i, Color: colours[i].line, Name: m.Name, Path: c.svgPath(points)})
		c.Key = append(c.Key, legendEntry{colours[i].key, m.Name})
	}
	return c
}
