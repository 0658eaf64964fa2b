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

// column is one figure of every method.
type column struct {
	head
	digits int  // after the decimal point
	plain  bool // has no best, and no deviation: times
	field  int  // of compare.Metrics, from 0
}

// value is a figure of one method.
type value struct {
	mean, std float64     // over the configurations of a sweep
	ci        *[2]float64 // or nil
}

// metrics are the columns of compare.Metrics.
func metrics() []column {
	lower := func(name, title string, field int) column {
		return column{head: head{Text: name, Title: title}, digits: 3, field: field}
	}
	higher := func(name, title string, field int) column {
		c := lower(name, title, field)
		c.Descending = true
		return c
	}
	return []column{
		higher("AUROC", "The probability that an out-of-domain input scores above an in-domain one.", 0),
		lower("FPR95", "The share of in-domain inputs flagged when 95 % of the out-of-domain ones are found.", 1),
		lower("FPR95 in", "The share of out-of-domain inputs accepted when 95 % of the in-domain ones are.", 4),
		higher("AUPR in", "Average precision with in-domain as the positive class.", 2),
		higher("AUPR out", "Average precision with out-of-domain as the positive class.", 3),
		lower("error", "Detection error: the least probability of judging an input wrongly where both sides are equally likely.", 5),
	}
}

// summary is the value of one of the metrics.
func summary(s compare.Summaries, ci *compare.Intervals, field int) value {
	of := measure.Figures[compare.Summary](&s)[field]
	v := value{mean: of.Mean, std: of.Std}
	if ci != nil {
		v.ci = measure.Figures[[2]float64](ci)[field]
	}
	return v
}

// ranked are the methods that have a result, the best first.
func ranked(r *compare.Report) []compare.MethodReport {
	return slices.DeleteFunc(r.Ranked(), func(m compare.MethodReport) bool { return len(m.Configs) == 0 })
}

// tables are the figures of methods and, where sets have names, their AUROC by set.
func tables(r *compare.Report, methods []compare.MethodReport) (figures, bySet grid) {
	control := func(i int) bool { return methods[i].Control }
	names := each(methods, func(m compare.MethodReport) string {
		name := m.Name
		if m.Control {
			name += " (control)"
		}
		if m.Variant != "" {
			name += " (" + m.Variant + ")"
		}
		return name
	})
	figures.text("method", names)
	add := func(c column, of func(m compare.MethodReport) value) {
		figures.figures(c, each(methods, of), r.Sweep, control)
	}
	for _, c := range metrics() {
		add(c, func(m compare.MethodReport) value { return summary(m.Summaries, m.CI, c.field) })
	}
	figures.Heads[1].Interval = r.Resamples > 0
	if r.InError != nil {
		// Networks that err seldom have areas of a few thousandths.
		c := column{head: head{Text: "AURC", Title: "Area under the risk-coverage curve of the network's own errors in-domain."}, digits: 4}
		add(c, func(m compare.MethodReport) value {
			v := value{mean: m.AURC.Mean, std: m.AURC.Std}
			if m.CI != nil {
				v.ci = m.CI.AURC
			}
			return v
		})
	}
	add(column{head: head{Text: "fit s", Title: "Seconds that fitting all configurations took."}, digits: 2, plain: true},
		func(m compare.MethodReport) value { return value{mean: m.FitSeconds} })
	add(column{head: head{Text: "µs/input", Title: "Microseconds that scoring one input took."}, digits: 1, plain: true},
		func(m compare.MethodReport) value { return value{mean: m.ScoreMicroseconds} })
	if len(r.Sets) == 0 || len(methods) == 0 {
		return figures, bySet
	}
	bySet.text("method", names)
	sets := each(methods, func(m compare.MethodReport) []compare.SetSummaries {
		return slices.Concat(m.Sets, m.Groups, []compare.SetSummaries{{Summaries: m.Summaries, CI: m.CI}})
	})
	set := func(name, title string) {
		i := len(bySet.Heads) - 1
		values := each(sets, func(of []compare.SetSummaries) value { return summary(of[i].Summaries, of[i].CI, 0) })
		bySet.figures(column{head: head{Text: name, Title: title, Descending: true}, digits: 3}, values, r.Sweep, control)
	}
	for _, s := range r.Sets {
		set(s.Name, fmt.Sprintf("AUROC on the %s of %s.", rows.Count(s.N, "row"), s.Name))
	}
	for _, g := range methods[0].Groups {
		set(g.Name+" (mean)", "Mean AUROC over the sets of the group "+g.Name+".")
	}
	set("mean", "Mean AUROC over all sets.")
	return figures, bySet
}

// figures adds a column. The best, controls apart, is marked.
func (g *grid) figures(c column, values []value, sweep bool, control func(i int) bool) {
	sign := -1.
	if c.Descending {
		sign = 1
	}
	best := math.Inf(-1)
	for i, v := range values {
		if !c.plain && !control(i) {
			best = max(best, sign*v.mean)
		}
	}
	g.Heads = append(g.Heads, c.head)
	g.column(len(values), func(i int) cell {
		v := values[i]
		one := cell{Text: display.Fixed(v.mean, 4), Key: strconv.FormatFloat(v.mean, 'g', -1, 64), Best: !c.plain && !control(i) && sign*v.mean == best}
		switch {
		case c.plain:
			one.Text = display.Fixed(v.mean, c.digits)
		case sweep:
			one.Text, one.Spread = display.Fixed(v.mean, 3), "±"+display.Fixed(v.std, 3)
		}
		if v.ci != nil {
			one.Range = display.Fixed(v.ci[0], c.digits) + "–" + display.Fixed(v.ci[1], c.digits)
		}
		return one
	})
}

// configurations are a sweep's grid with the metrics, nil without one.
func configurations(m compare.MethodReport) *grid {
	if len(m.Configs) < 2 {
		return nil
	}
	var g grid
	g.text("configuration", each(m.Configs, func(c compare.Config) string { return c.Params.String() }))
	for _, c := range metrics() {
		c.plain = true
		g.figures(c, each(m.Configs, func(conf compare.Config) value {
			v := value{mean: *measure.Figures[float64](&conf.Metrics)[c.field]}
			if conf.CI != nil {
				v.ci = measure.Figures[[2]float64](conf.CI)[c.field]
			}
			return v
		}), false, nil)
	}
	return &g
}

// ComparisonText is a comparison for a terminal.
func ComparisonText(r *compare.Report) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(display.Printable(fmt.Sprintf(format, args...)) + "\n")
	}
	sets := ""
	if len(r.Sets) > 0 {
		sets = ": " + strings.Join(each(r.Sets, func(s compare.Set) string { return s.Name + " " + display.Count(s.N) }), ", ") + "; means over the sets"
	}
	line("%s to fit with, %s in-domain, %s out-of-domain%s", rows.Count(r.NFit, "row"), display.Count(r.NIn), display.Count(r.NOut), sets)
	figures, bySet := tables(r, ranked(r))
	b.WriteString("\n" + figures.lines())
	if bySet.Rows != nil {
		b.WriteString("\nAUROC by set\n\n" + bySet.lines())
	}
	for _, m := range r.Methods {
		if m.NOutliers > 0 {
			b.WriteString("\n")
			line("%s: fitted with %s and measured on %s", m.Name, rows.Count(m.NOutliers, "out-of-domain row"), rows.Count(m.NOut, "other"))
		}
	}
	for _, a := range absent(r) {
		line("%s (%s): %s", a.What, a.Why, a.Names)
	}
	return b.String()
}

// row is one method's line in the table.
type row struct {
	Method         int // its place in the ranking
	Name           string
	Control        bool
	Note           string
	Swatch         int // its colour, or 0
	Spark          glyph
	Forest         *glyph
	Histogram      *histogram
	AUROC          float64 // of what is drawn
	Configurations *grid
	NOutliers      int // out-of-domain rows that it was fitted with
}

// cell is one value; Key sorts it.
type cell struct {
	Text, Spread, Range string
	Key                 string
	Best                bool
	Words, Hidden       bool   // of a column of words, or one that is not shown
	Forest              *glyph // beside it, or nil
}
