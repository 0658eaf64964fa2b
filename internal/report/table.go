package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// column is one figure of every method.
type column struct {
	Head, Title string
	Lower       bool // lower is better
	digits      int  // after the decimal point
	plain       bool // has no best: times
	field       int  // of compare.Metrics, from 0
	values      []value
}

// value is a figure of one method.
type value struct {
	mean, std float64     // over the configurations of a sweep
	ci        *[2]float64 // or nil
}

// metrics are the columns of compare.Metrics.
func metrics() []column {
	return []column{
		{Head: "AUROC", Title: "The probability that an out-of-domain input scores above an in-domain one.", digits: 3},
		{Head: "FPR95", Title: "The share of in-domain inputs flagged when 95 % of the out-of-domain ones are found.", Lower: true, digits: 3, field: 1},
		{Head: "FPR95 in", Title: "The share of out-of-domain inputs accepted when 95 % of the in-domain ones are.", Lower: true, digits: 3, field: 4},
		{Head: "AUPR in", Title: "Average precision with in-domain as the positive class.", digits: 3, field: 2},
		{Head: "AUPR out", Title: "Average precision with out-of-domain as the positive class.", digits: 3, field: 3},
		{Head: "error", Title: "Detection error: the least probability of judging an input wrongly where both sides are equally likely.", Lower: true, digits: 3, field: 5},
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

// columns are the figures that a comparison has of methods.
func columns(r *compare.Report, methods []compare.MethodReport) []column {
	list := metrics()
	shared := len(list)
	if r.InError != nil {
		// Networks that err seldom have areas of a few thousandths.
		list = append(list, column{Head: "AURC", Title: "Area under the risk-coverage curve of the network's own errors in-domain.", Lower: true, digits: 4})
	}
	list = append(list,
		column{Head: "fit s", Title: "Seconds that fitting all configurations took.", Lower: true, digits: 2, plain: true},
		column{Head: "µs/input", Title: "Microseconds that scoring one input took.", Lower: true, digits: 1, plain: true})
	for _, m := range methods {
		var all []value
		for _, c := range list[:shared] {
			all = append(all, summary(m.Summaries, m.CI, c.field))
		}
		if r.InError != nil {
			v := value{mean: m.AURC.Mean, std: m.AURC.Std}
			if m.CI != nil {
				v.ci = m.CI.AURC
			}
			all = append(all, v)
		}
		all = append(all, value{mean: m.FitSeconds}, value{mean: m.ScoreMicroseconds})
		for i, v := range all {
			list[i].values = append(list[i].values, v)
		}
	}
	return list
}

// setColumns are AUROC by set and by group, where sets have names.
func setColumns(r *compare.Report, methods []compare.MethodReport) []column {
	if len(r.Sets) == 0 || len(methods) == 0 {
		return nil
	}
	var list []column
	for _, s := range r.Sets {
		list = append(list, column{Head: s.Name, Title: fmt.Sprintf("AUROC on the %s of %s.", rows.Count(s.N, "row"), s.Name), digits: 3})
	}
	for _, g := range methods[0].Groups {
		list = append(list, column{Head: g.Name + " (mean)", Title: "Mean AUROC over the sets of the group " + g.Name + ".", digits: 3})
	}
	list = append(list, column{Head: "mean", Title: "Mean AUROC over all sets.", digits: 3})
	for _, m := range methods {
		all := slices.Concat(m.Sets, m.Groups, []compare.SetSummaries{{Summaries: m.Summaries, CI: m.CI}})
		for i, s := range all {
			list[i].values = append(list[i].values, summary(s.Summaries, s.CI, 0))
		}
	}
	return list
}

// Text is the comparison as lines of text, heads first: the figures of each
// method and, where sets have names, its AUROC by set.
func Text(r *compare.Report) (figures, bySet [][]string) {
	methods := ranked(r)
	return lines(r, methods, columns(r, methods), r.Resamples > 0), lines(r, methods, setColumns(r, methods), false)
}

func lines(r *compare.Report, methods []compare.MethodReport, list []column, intervals bool) [][]string {
	if len(list) == 0 {
		return nil
	}
	all := [][]string{{"method"}}
	for _, m := range methods {
		name := m.Name
		if m.Control {
			name += " (control)"
		}
		if m.Variant != "" {
			name += " (" + m.Variant + ")"
		}
		all = append(all, []string{name})
	}
	for j, c := range list {
		all[0] = append(all[0], c.Head)
		if j == 0 && intervals {
			all[0] = append(all[0], "95 % interval")
		}
		for i, v := range c.values {
			text := display.Fixed(v.mean, 4)
			if c.plain {
				text = display.Fixed(v.mean, c.digits)
			} else if r.Sweep {
				text = display.Fixed(v.mean, 3) + "±" + display.Fixed(v.std, 3)
			}
			all[i+1] = append(all[i+1], text)
			if j == 0 && intervals {
				all[i+1] = append(all[i+1], display.Fixed(v.ci[0], 3)+"–"+display.Fixed(v.ci[1], 3))
			}
		}
	}
	return all
}

// row is one method's line in the table.
type row struct {
	Method         int // its place in the ranking
	Name           string
	Control        bool
	Note           string
	Spark          glyph
	Forest         *glyph
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
	Words, Hidden       bool   // of a column of words, or one that is not shown
	Forest              *glyph // beside it, or nil
}

func newCell(v value, digits int, sweep bool) cell {
	c := cell{Text: display.Fixed(v.mean, digits), Key: strconv.FormatFloat(v.mean, 'g', -1, 64)}
	if sweep && v.std > 0 {
		c.Spread = "±" + display.Fixed(v.std, digits)
	}
	if v.ci != nil {
		c.Range = display.Fixed(v.ci[0], digits) + "–" + display.Fixed(v.ci[1], digits)
	}
	return c
}

// cells are every method's cells under the columns. The best of each column,
// controls apart, is marked.
func cells(list []column, methods []compare.MethodReport, sweep bool) [][]cell {
	rows := make([][]cell, len(methods))
	for _, c := range list {
		sign := 1.
		if c.Lower {
			sign = -1
		}
		best := math.Inf(-1)
		for i, m := range methods {
			if !m.Control && !c.plain {
				best = max(best, sign*c.values[i].mean)
			}
		}
		for i, m := range methods {
			one := newCell(c.values[i], c.digits, sweep && !c.plain)
			one.Best = !c.plain && !m.Control && sign*c.values[i].mean == best
			rows[i] = append(rows[i], one)
		}
	}
	return rows
}

// configuration is one line of a method's grid.
type configuration struct {
	Params string
	Cells  []cell
}

// configurations lists a sweep's grid with the metrics.
func configurations(m compare.MethodReport) []configuration {
	var list []configuration
	for _, conf := range m.Configs {
		one := configuration{Params: conf.Params.String()}
		for _, c := range metrics() {
			v := value{mean: *measure.Figures[float64](&conf.Metrics)[c.field]}
			if conf.CI != nil {
				v.ci = measure.Figures[[2]float64](conf.CI)[c.field]
			}
			one.Cells = append(one.Cells, newCell(v, 3, false))
		}
		list = append(list, one)
	}
	return list
}
