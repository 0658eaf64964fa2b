package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/ood/measure"
)

// Column is one figure of every method, in the table beside the metrics. A
// column that no method has a value in is left out.
type Column struct {
	Head  string
	Title string // what the figure is, in a sentence
	Lower bool   // lower is better
	// Plain columns have no best: times, for one.
	Plain  bool
	Digits int              // after the decimal point
	Values map[string]Value // by the method's name
}

// Value is a figure of one method.
type Value struct {
	Mean float64
	Std  float64           // over the configurations of a sweep
	CI   *measure.Interval // or nil
}

// metricColumns are the columns that a comparison itself has.
func metricColumns(r *compare.Report) []Column {
	metric := func(head, title string, lower bool, s func(compare.MethodReport) compare.Summary, ci func(*measure.Intervals) *measure.Interval) Column {
		c := Column{Head: head, Title: title, Lower: lower, Digits: 3, Values: map[string]Value{}}
		for _, m := range r.Methods {
			if sum := s(m); !sum.IsZero() {
				v := Value{Mean: sum.Mean, Std: sum.Std}
				if m.CI != nil {
					v.CI = ci(m.CI)
				}
				c.Values[m.Name] = v
			}
		}
		return c
	}
	plain := func(head, title string, digits int, f func(compare.MethodReport) float64) Column {
		c := Column{Head: head, Title: title, Lower: true, Plain: true, Digits: digits, Values: map[string]Value{}}
		for _, m := range r.Methods {
			if !m.AUROC.IsZero() {
				c.Values[m.Name] = Value{Mean: f(m)}
			}
		}
		return c
	}
	aurc := metric("AURC", "Area under the risk-coverage curve of the network's own errors in-domain.", true,
		func(m compare.MethodReport) compare.Summary { return m.AURC }, func(v *measure.Intervals) *measure.Interval { return v.AURC })
	// Networks that err seldom have areas of a few thousandths.
	aurc.Digits = 4
	return []Column{
		metric("AUROC", "The probability that an out-of-domain input scores above an in-domain one.", false,
			func(m compare.MethodReport) compare.Summary { return m.AUROC }, func(v *measure.Intervals) *measure.Interval { return &v.AUROC }),
		metric("FPR95", "The share of in-domain inputs flagged when 95 % of the out-of-domain ones are found.", true,
			func(m compare.MethodReport) compare.Summary { return m.FPR95 }, func(v *measure.Intervals) *measure.Interval { return &v.FPR95 }),
		metric("FPR95 in", "The share of out-of-domain inputs accepted when 95 % of the in-domain ones are.", true,
			func(m compare.MethodReport) compare.Summary { return m.FPR95In }, func(v *measure.Intervals) *measure.Interval { return &v.FPR95In }),
		metric("AUPR in", "Average precision with in-domain as the positive class.", false,
			func(m compare.MethodReport) compare.Summary { return m.AUPRIn }, func(v *measure.Intervals) *measure.Interval { return &v.AUPRIn }),
		metric("AUPR out", "Average precision with out-of-domain as the positive class.", false,
			func(m compare.MethodReport) compare.Summary { return m.AUPROut }, func(v *measure.Intervals) *measure.Interval { return &v.AUPROut }),
		metric("error", "Detection error: the least probability of judging an input wrongly where both sides are equally likely.", true,
			func(m compare.MethodReport) compare.Summary { return m.DetectionError }, func(v *measure.Intervals) *measure.Interval { return &v.DetectionError }),
		aurc,
		plain("fit, s", "Seconds that fitting all configurations took.", 2, func(m compare.MethodReport) float64 { return m.FitSeconds }),
		plain("µs/input", "Microseconds that scoring one input took.", 1, func(m compare.MethodReport) float64 { return m.ScoreMicroseconds }),
	}
}

// head is a column's head as the page shows it.
type head struct {
	Text, Title string
	Lower       bool
}

// row is one method's line in the table.
type row struct {
	Method         int // its place in the ranking
	Name           string
	Control        bool
	Note           string
	Spark, Forest  glyph
	Cells, PerSet  []cell
	Histogram      *histogram
	AUROC          float64 // of what is drawn
	Configurations []configuration
	NOutliers      int // out-of-domain rows that it was fitted with
}

// cell is one value; Key sorts it.
type cell struct {
	Text, Spread, Range string
	Key                 string
	Best                bool
}

func newCell(v Value, digits int, sweep bool) cell {
	c := cell{Text: fixed(v.Mean, digits), Key: strconv.FormatFloat(v.Mean, 'g', -1, 64)}
	if sweep && v.Std > 0 {
		c.Spread = "±" + fixed(v.Std, digits)
	}
	if v.CI != nil {
		c.Range = fixed(v.CI[0], digits) + "–" + fixed(v.CI[1], digits)
	}
	return c
}

func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

// cells returns the heads of the columns that have values, and every method's
// cells under them. The best of each column, controls apart, is marked.
func cells(columns []Column, methods []compare.MethodReport, sweep bool) ([]head, [][]cell) {
	var heads []head
	rows := make([][]cell, len(methods))
	for _, c := range columns {
		best, any := math.Inf(-1), false
		for _, m := range methods {
			v, ok := c.Values[m.Name]
			any = any || ok
			if ok && !m.Control && !c.Plain {
				best = max(best, c.signed(v.Mean))
			}
		}
		if !any {
			continue
		}
		heads = append(heads, head{c.Head, c.Title, c.Lower})
		for i, m := range methods {
			v, ok := c.Values[m.Name]
			if !ok {
				rows[i] = append(rows[i], cell{})
				continue
			}
			one := newCell(v, c.Digits, sweep && !c.Plain)
			one.Best = !c.Plain && !m.Control && c.signed(v.Mean) == best
			rows[i] = append(rows[i], one)
		}
	}
	return heads, rows
}

// signed makes the better of two values the higher one.
func (c Column) signed(x float64) float64 {
	if c.Lower {
		return -x
	}
	return x
}

// setColumns are AUROC by set and by group, where sets have names.
func setColumns(r *compare.Report) []Column {
	if len(r.Sets) == 0 {
		return nil
	}
	var columns []Column
	column := func(head, title string, pick func(compare.MethodReport) (compare.SetSummaries, bool)) {
		c := Column{Head: head, Title: title, Digits: 3, Values: map[string]Value{}}
		for _, m := range r.Methods {
			if s, ok := pick(m); ok {
				v := Value{Mean: s.AUROC.Mean, Std: s.AUROC.Std}
				if s.CI != nil {
					v.CI = &s.CI.AUROC
				}
				c.Values[m.Name] = v
			}
		}
		columns = append(columns, c)
	}
	for i, s := range r.Sets {
		title := fmt.Sprintf("AUROC on the %d rows of %s.", s.N, s.Name)
		column(s.Name, title, func(m compare.MethodReport) (compare.SetSummaries, bool) { return at(m.Sets, i) })
	}
	for _, m := range r.Methods {
		if len(m.Groups) == 0 {
			continue
		}
		for i, g := range m.Groups {
			column(g.Name+" sets", "Mean AUROC over the sets of the group "+g.Name+".", func(m compare.MethodReport) (compare.SetSummaries, bool) { return at(m.Groups, i) })
		}
		break
	}
	column("all sets", "Mean AUROC over all sets.", func(m compare.MethodReport) (compare.SetSummaries, bool) {
		return compare.SetSummaries{Summaries: m.Summaries, CI: m.CI}, !m.AUROC.IsZero()
	})
	return columns
}

func at(s []compare.SetSummaries, i int) (compare.SetSummaries, bool) {
	if i >= len(s) {
		return compare.SetSummaries{}, false
	}
	return s[i], true
}

// configuration is one line of a method's grid.
type configuration struct {
	Params string
	Cells  []cell
}

// configurations lists a sweep's grid with the metrics that heads name.
func configurations(m compare.MethodReport) []configuration {
	var list []configuration
	for _, conf := range m.Configs {
		ci := conf.CI
		if ci == nil {
			ci = &measure.Intervals{}
		}
		one := configuration{Params: conf.Params.String()}
		for _, v := range []struct {
			value    float64
			interval *measure.Interval
		}{
			{conf.AUROC, &ci.AUROC}, {conf.FPR95, &ci.FPR95}, {conf.FPR95In, &ci.FPR95In}, {conf.AUPRIn, &ci.AUPRIn},
			{conf.AUPROut, &ci.AUPROut}, {conf.DetectionError, &ci.DetectionError},
		} {
			if conf.CI == nil {
				v.interval = nil
			}
			one.Cells = append(one.Cells, newCell(Value{Mean: v.value, CI: v.interval}, 3, false))
		}
		list = append(list, one)
	}
	return list
}
