package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// figureColumn describes a table column with one figure for each method.
type figureColumn struct {
	columnHead
	digits int  // number of decimals
	noBest bool // whether the column marks no best value and shows no deviation, such as a time
	field  int  // index of the figure in compare.Metrics
}

// figureValue is a figure of one method, summarised over the configurations of a sweep.
type figureValue struct {
	compare.Summary
	ci *[2]float64 // confidence interval, or nil
}

// metricColumns returns the columns of the table, one for each figure of compare.Metrics.
func metricColumns() []figureColumn {
	return []figureColumn{
		{columnHead: columnHead{Text: "AUROC", Title: "Probability that an out-of-distribution row scores above an in-distribution row.", Descending: true}, digits: 3},
		{columnHead: columnHead{Text: "FPR95", Title: "Fraction of in-distribution rows flagged when 95 % of the out-of-distribution rows are detected (FPR@95 of OpenOOD)."}, digits: 3, field: 1},
		{columnHead: columnHead{Text: "FPR95 in", Title: "Fraction of out-of-distribution rows accepted when 95 % of the in-distribution rows are (FPR@95 of OpenOOD before August 2023)."}, digits: 3, field: 4},
		{columnHead: columnHead{Text: "AUPR in", Title: "Average precision with in-distribution as the positive class.", Descending: true}, digits: 3, field: 2},
		{columnHead: columnHead{Text: "AUPR out", Title: "Average precision with out-of-distribution as the positive class.", Descending: true}, digits: 3, field: 3},
		{columnHead: columnHead{Text: "detection error", Title: "Smallest probability, over all thresholds, to misjudge a row if both kinds are equally likely."}, digits: 3, field: 5},
	}
}

// metricValue returns the value of the metric whose index is field.
func metricValue(s compare.Summaries, ci *compare.Intervals, field int) figureValue {
	v := figureValue{Summary: *measure.Figures[compare.Summary](&s)[field]}
	if ci != nil {
		v.ci = measure.Figures[[2]float64](ci)[field]
	}
	return v
}

// rankedMethods returns the methods that have a result, the best first.
func rankedMethods(r *compare.Report) []compare.MethodReport {
	return slices.DeleteFunc(r.Ranked(), func(m compare.MethodReport) bool { return len(m.Configs) == 0 })
}

// comparisonTables returns a table with the figures of each method. If the sets have names,
// it also returns a table of the AUROC by set.
func comparisonTables(r *compare.Report, methods []compare.MethodReport) (figures, bySet grid) {
	control := func(i int) bool { return methods[i].Control }
	names := mapSlice(methods, func(m compare.MethodReport) string {
		name := m.Name
		if m.Control {
			name += " (control)"
		}
		if m.Variant != "" {
			name += " (" + m.Variant + ")"
		}
		return name
	})
	figures.addText("method", names)
	add := func(c figureColumn, get func(m compare.MethodReport) figureValue) {
		figures.addFigures(c, mapSlice(methods, get), r.Sweep, control)
	}
	for _, c := range metricColumns() {
		add(c, func(m compare.MethodReport) figureValue { return metricValue(m.Summaries, m.CI, c.field) })
	}
	figures.Heads[1].Interval = r.Resamples > 0
	if r.ErrorRate != nil {
		// The AURC of an accurate model is a few thousandths, so it needs a fourth decimal.
		c := figureColumn{columnHead: columnHead{Text: "AURC", Title: "Area under the risk–coverage curve of the errors of the model on in-distribution rows."}, digits: 4}
		add(c, func(m compare.MethodReport) figureValue {
			v := figureValue{Summary: m.AURC}
			if m.CI != nil {
				v.ci = m.CI.AURC
			}
			return v
		})
	}
	time := func(name, title string, digits int, get func(m compare.MethodReport) float64) {
		c := figureColumn{columnHead: columnHead{Text: name, Title: title}, digits: digits, noBest: true}
		add(c, func(m compare.MethodReport) figureValue { return figureValue{Summary: compare.Summary{Mean: get(m)}} })
	}
	time("fit (s)", "Seconds to fit all configurations.", 2, func(m compare.MethodReport) float64 { return m.FitSeconds })
	time("score (µs/row)", "Microseconds to score one row.", 1, func(m compare.MethodReport) float64 { return m.ScoreMicroseconds })
	if len(r.OODSets) == 0 || len(methods) == 0 {
		return figures, bySet
	}
	bySet.addText("method", names)
	sets := mapSlice(methods, func(m compare.MethodReport) []compare.SetSummaries {
		return slices.Concat(m.Sets, m.Groups, []compare.SetSummaries{{Summaries: m.Summaries, CI: m.CI}})
	})
	set := func(name, title string) {
		i := len(bySet.Heads) - 1
		values := mapSlice(sets, func(get []compare.SetSummaries) figureValue { return metricValue(get[i].Summaries, get[i].CI, 0) })
		bySet.addFigures(figureColumn{columnHead: columnHead{Text: name, Title: title, Descending: true}, digits: 3}, values, r.Sweep, control)
	}
	for _, s := range r.OODSets {
		set(s.Name, fmt.Sprintf("AUROC on the %s of %s.", rows.Count(s.Rows, "row"), s.Name))
	}
	for _, g := range methods[0].Groups {
		set(g.Name+" (mean)", "Mean AUROC over the sets of the group "+g.Name+".")
	}
	set("mean", "Mean AUROC over all sets.")
	return figures, bySet
}

// addFigures adds a column of figures and marks the best value. A control is never the best.
func (g *grid) addFigures(c figureColumn, values []figureValue, sweep bool, control func(i int) bool) {
	sign := -1.
	if c.Descending {
		sign = 1
	}
	best := math.Inf(-1)
	for i, v := range values {
		if !c.noBest && !control(i) {
			best = max(best, sign*v.Mean)
		}
	}
	g.Heads = append(g.Heads, c.columnHead)
	g.addColumn(len(values), func(i int) cell {
		v := values[i]
		newCell := cell{Text: display.Fixed(v.Mean, c.digits), Key: strconv.FormatFloat(v.Mean, 'g', -1, 64), Best: !c.noBest && !control(i) && sign*v.Mean == best}
		switch {
		case c.noBest:
		case sweep:
			newCell.Spread = "±" + display.Fixed(v.Std, c.digits)
		default: // without a deviation there is room for one more decimal
			newCell.Text = display.Fixed(v.Mean, 4)
		}
		if v.ci != nil {
			newCell.Range = display.Fixed(v.ci[0], c.digits) + "–" + display.Fixed(v.ci[1], c.digits)
		}
		return newCell
	})
}

// configurationTable returns a table with the metrics of each configuration of a sweep, or
// nil without a sweep.
func configurationTable(m compare.MethodReport) *grid {
	if len(m.Configs) < 2 {
		return nil
	}
	var g grid
	g.addText("configuration", mapSlice(m.Configs, func(c compare.Config) string { return c.Params.String() }))
	for _, c := range metricColumns() {
		c.noBest = true
		g.addFigures(c, mapSlice(m.Configs, func(conf compare.Config) figureValue {
			v := figureValue{Summary: compare.Summary{Mean: *measure.Figures[float64](&conf.Metrics)[c.field]}}
			if conf.CI != nil {
				v.ci = measure.Figures[[2]float64](conf.CI)[c.field]
			}
			return v
		}), false, nil)
	}
	return &g
}

// ComparisonText formats a comparison for a terminal.
func ComparisonText(r *compare.Report) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(display.Printable(fmt.Sprintf(format, args...)) + "\n")
	}
	sets := ""
	if len(r.OODSets) > 0 {
		sets = ": " + strings.Join(mapSlice(r.OODSets, func(s compare.Set) string { return s.Name + " " + display.Count(s.Rows) }), ", ") + "; means over the sets"
	}
	line("%s, %s, %s%s", rows.Count(r.FitRows, "fit row"), rows.Count(r.TestRows, "in-distribution test row"), rows.Count(r.OODRows, "OOD row"), sets)
	if r.ErrorRate != nil {
		line("the model is right on %s of the test rows", display.Percent(1-*r.ErrorRate))
	}
	figures, bySet := comparisonTables(r, rankedMethods(r))
	b.WriteString("\n" + figures.format())
	if bySet.Rows != nil {
		b.WriteString("\nAUROC by OOD set\n\n" + bySet.format())
	}
	for _, m := range r.Methods {
		if m.OutliersFitted > 0 {
			b.WriteString("\n")
			line("%s: fitted with %s, measured on %s", m.Name, rows.Count(m.OutliersFitted, "OOD row"), rows.Count(m.OODRows, "other"))
		}
	}
	for _, a := range listMissing(r) {
		line("%s (%s): %s", a.What, a.Why, a.Names)
	}
	return b.String()
}

// methodRow is the line of a method in the table.
type methodRow struct {
	Method         int // rank of the method, from 0
	Name           string
	Control        bool
	Note           string
	Color          int // 1 to maxColours, or 0 for a method without its own colour
	Spark          glyph
	Forest         *glyph
	Histogram      *histogram
	Configurations *grid
	NOutliers      int            // number of OOD rows that the method was fitted with
	Best           compare.Config // configuration whose scores are drawn
}

// cell is one value of a table. Rows are sorted by the Key of their cell.
type cell struct {
	Text, Spread, Range string
	Key                 string
	Best                bool
	Marked              bool   // whether the value is a reason
	Share               int    // per cent of the score that the value explains, or 0
	Parts               []Word // words of Text, or nil
	Words, Hidden       bool   // whether the column holds text, and whether it is hidden
	Forest              *glyph // drawing beside the text, or nil
}
