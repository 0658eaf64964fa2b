package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Evaluation is the page of what rows show of a bundle.
func Evaluation(bundle, file string, e *evaluate.Evaluation) Page {
	p := Page{
		Title: "Does " + bundle + " keep its promises?",
		Lead:  fmt.Sprintf("Evaluated on %s of %s, calibrated with %s.", rows.Count(e.Rows, "row"), file, rows.Count(e.NCal, "row")),
		Facts: headline(e),
	}
	p.blocks = append(p.blocks, promises(e))
	if e.Flags != nil {
		p.blocks = append(p.blocks, flags(e))
	}
	if e.Classes != nil {
		p.blocks = append(p.blocks, classes(e)...)
	}
	for i := range e.Targets {
		p.blocks = append(p.blocks, target(e, i))
	}
	if len(e.Joint) > 0 {
		p.blocks = append(p.blocks, joint(e))
	}
	if g := parts(e, "group", func(_, group []evaluate.Rate) []evaluate.Rate { return group }); g != nil {
		p.blocks = append(p.blocks, block{Title: "By group", Lead: worstFirst, Tables: []grid{*g}})
	}
	if g := parts(e, "class", func(class, _ []evaluate.Rate) []evaluate.Rate { return class }); g != nil {
		p.blocks = append(p.blocks, block{Title: "By class", Lead: worstFirst, Tables: []grid{*g}})
	}
	return p
}

const worstFirst = "The worst first."

// headline are the figures that stand at the head.
func headline(e *evaluate.Evaluation) []Fact {
	var facts []Fact
	add := func(value, label string) { facts = append(facts, Fact{value, label}) }
	if value, label := Headline(e); value != "" {
		add(value, label)
	}
	if e.Flags != nil {
		if r := atAlpha(e.Flags.At, e.Alpha); r != nil {
			add(display.Percent(r.Share), fmt.Sprintf("flagged at alpha %g", e.Alpha))
		}
	}
	if e.Classes != nil {
		add(display.Percent(e.Classes.Accuracy.Share), "of the answers are right")
		if s := atLevel(e.Classes.Sets, e.Level); s != nil {
			add(display.Percent(s.Share), fmt.Sprintf("of the sets at level %g hold the class", e.Level))
		}
	}
	for i, t := range e.Targets[:min(1, len(e.Targets))] {
		if c := atLevel(t.Coverage, e.Level); c != nil {
			add(display.Percent(c.Share), fmt.Sprintf("covered at level %g%s", e.Level, ofTarget(e, i)))
		}
	}
	if e.Others != nil {
		if r := atAlpha(e.Others.At, e.Alpha); r != nil {
			add(display.Percent(r.Share), "of the rows from elsewhere flagged")
		}
	}
	return facts
}

// Headline says how many guarantees are met, in a figure and what it is of. Those of
// several groups or classes count as one. Both are empty if nothing is guaranteed.
func Headline(e *evaluate.Evaluation) (value, label string) {
	order := []string{hypothesis.Kept, hypothesis.TooFewRows, hypothesis.Broken} // a part decides for all
	kinds, counts, limits := map[string]int{}, make([]int, len(order)), 0
	for _, p := range e.Promises {
		p.Name = ""
		kind := what(e, p)
		kinds[kind] = max(kinds[kind], slices.Index(order, p.Verdict))
	}
	for _, worst := range kinds {
		counts[worst]++
	}
	for _, n := range e.Notes {
		if n.Part != "" {
			limits++
		}
	}
	met, unknown, violated, all := counts[0], counts[1], counts[2], len(kinds)
	guarantees := map[bool]string{true: "guarantees", false: "guarantee"}[all > 1]
	switch {
	case all == 0:
		return "", ""
	case unknown == all:
		return display.Count(all), guarantees + ": too few rows to tell"
	}
	label = guarantees + " met"
	if violated > 0 {
		label += fmt.Sprintf(", %d violated", violated)
	}
	if unknown > 0 {
		label += fmt.Sprintf(", %d with too few rows to tell", unknown)
	}
	if limits > 0 {
		label += "; " + rows.Count(limits, "limit")
	}
	return fmt.Sprintf("%d of %d", met, all), label
}

// Flag is the flag that makes the choice that a note advises, or "".
func Flag(n evaluate.Note) string {
	switch n.Option {
	case "":
		return ""
	case "groups": // which calibration divides
		return "attach fit --groups NAME"
	}
	return strings.TrimSpace("--" + strings.ReplaceAll(n.Option, "_", "-") + " " + n.Value)
}

// atAlpha is the rate that was asked for, or nil.
func atAlpha(list []evaluate.Rate, asked float64) *evaluate.Rate {
	return first(list, func(r evaluate.Rate) bool { return r.Asked == asked })
}

// atLevel is the coverage at the level that was asked for, or nil.
func atLevel(list []evaluate.Coverage, level float64) *evaluate.Coverage {
	return first(list, func(c evaluate.Coverage) bool { return c.Asked == level })
}

func first[T any](list []T, is func(T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i]
	}
	return nil
}

// each is one thing of every one of a list.
func each[T, U any](list []T, of func(T) U) []U {
	all := make([]U, len(list))
	for i, x := range list {
		all[i] = of(x)
	}
	return all
}

// orNaN is the number, or NaN where there is none.
func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// ofTarget ends a clause where there are several targets.
func ofTarget(e *evaluate.Evaluation, i int) string {
	if len(e.Targets) < 2 {
		return ""
	}
	return ", " + cmp.Or(e.Targets[i].Name, fmt.Sprintf("target %d", i))
}

// openVerdicts is how many promises are not folded away.
const openVerdicts = 10

// promises are the verdicts, those that are broken first and what to do once, and
// what to know beside them.
func promises(e *evaluate.Evaluation) block {
	b := block{Title: "Promises"}
	kinds := map[string]string{hypothesis.Broken: "bad", hypothesis.TooFewRows: "open", hypothesis.Kept: "good"}
	order := map[string]int{hypothesis.Broken: 0, hypothesis.TooFewRows: 1, hypothesis.Kept: 2}
	sorted := slices.SortedStableFunc(slices.Values(e.Promises), func(a, b evaluate.Promise) int { return cmp.Compare(order[a.Verdict], order[b.Verdict]) })
	said := map[string]bool{}
	for _, p := range sorted {
		v := verdict{Word: p.Verdict, Kind: kinds[p.Verdict], What: what(e, p), Says: p.Says}
		if !said[p.Do] {
			v.Do, said[p.Do] = capital(p.Do), true
		}
		b.Verdicts = append(b.Verdicts, v)
	}
	if len(b.Verdicts) > openVerdicts+2 {
		b.Verdicts, b.Folded = b.Verdicts[:openVerdicts], b.Verdicts[openVerdicts:]
	}
	if len(e.Promises) == 0 {
		b.Lead = "Nothing is promised that these rows can show."
	}
	for _, n := range e.Notes {
		v := verdict{Word: "note", Says: capital(n.Says), Do: capital(n.Do)}
		if n.Part != "" {
			v.Word, v.Kind = "limit", "limit"
		}
		if flag := Flag(n); flag != "" {
			v.Do += " (" + flag + ")"
		}
		b.Notes = append(b.Notes, v)
	}
	slices.SortStableFunc(b.Notes, func(a, b verdict) int { return cmp.Compare(a.Word, b.Word) }) // limits first
	return b
}

// what is promised.
func what(e *evaluate.Evaluation, p evaluate.Promise) string {
	var says string
	switch p.Kind {
	case hypothesis.FalseAlarms:
		says = fmt.Sprintf("False alarms at alpha %g", p.Asked)
	case hypothesis.Coverage:
		says = fmt.Sprintf("Intervals at level %g", p.Asked) + ofTarget(e, p.Target)
	case hypothesis.JointCoverage:
		says = fmt.Sprintf("Intervals of all targets at level %g", p.Asked)
	case hypothesis.Sets:
		says = fmt.Sprintf("Sets at level %g", p.Asked)
	case hypothesis.SelectiveError:
		says = fmt.Sprintf("Error of at most %g among accepted rows", p.Asked)
	}
	if p.Name != "" {
		says += ", " + p.Part + " " + p.Name
	}
	return says + ":"
}

// asking are rates of which that is asked, 0 of none.
func asking(list []evaluate.Rate, asked float64) []evaluate.Rate {
	return each(list, func(r evaluate.Rate) evaluate.Rate { r.Asked = asked; return r })
}

// flags is what is flagged of the rows, and of those from elsewhere.
func flags(e *evaluate.Evaluation) block {
	b := block{Title: "Which rows are flagged"}
	var g grid
	add := func(title, name string, h evaluate.Histogram, list []evaluate.Rate) {
		c := counts(title, "p-value", h)
		c.Note = "Dashed: expected of rows like the calibration rows."
		if p := h.Probability; p != nil {
			c.Note += fmt.Sprintf(" Were the rows like those, scores as unlike theirs would have a probability of %s.", display.Number(*p, 2))
		}
		b.Charts = append(b.Charts, c)
		g.rates(name, "share of the rows", list)
	}
	g.numbers("alpha", "the share of in-domain inputs that may be flagged by mistake", each(e.Flags.At, func(r evaluate.Rate) float64 { return r.Asked }), threeDigits)
	add("p-values", "flagged", e.Flags.PValues, e.Flags.At)
	if o := e.Others; o != nil {
		add("p-values of rows from elsewhere", "flagged from elsewhere", o.PValues, asking(o.At, 0))
		b.Charts[1].Areas[0].Color = 1
		b.Facts = []Fact{{display.Fixed(o.AUROC, 3), "AUROC against rows from elsewhere"}, {display.Fixed(o.FPR95, 3), "FPR95"}, {display.Count(o.Rows), "rows from elsewhere"}}
	}
	b.Tables = []grid{g}
	return b
}

// classes are a classifier's answers and, where there are any, sets.
func classes(e *evaluate.Evaluation) []block {
	c := e.Classes
	b := block{Title: "Answers", Charts: []chart{reliability(c), riskCoverage(c)}}
	fact := func(value, label string) { b.Facts = append(b.Facts, Fact{value, label}) }
	rate := func(r *evaluate.Rate, label string) {
		if r != nil {
			fact(display.Percent(r.Share)+" ("+spread(*r)+")", label)
		}
	}
	rate(c.Accuracy, "right")
	rate(c.Unflagged, "right among rows not flagged")
	rate(c.Flagged, "right among flagged rows")
	rate(c.Accepted, "accepted")
	rate(c.Errors, "wrong among accepted rows")
	pair := func(label, before, after string) {
		if after != "" {
			before += " → " + after
			label += ", with the temperature"
		}
		fact(before, label)
	}
	ece, nll := "", ""
	if c.After != nil {
		ece = display.Fixed(c.After.ECE, 4)
		if c.After.NLL != nil {
			nll = display.Fixed(*c.After.NLL, 4)
		}
	}
	pair("expected calibration error", display.Fixed(c.Before.ECE, 4), ece)
	if c.Before.NLL != nil {
		pair("negative log-likelihood", display.Fixed(*c.Before.NLL, 4), nll)
	}
	fact(display.Fixed(c.AURC, 4), "area under risk and coverage")
	if c.AURCScore != nil {
		fact(display.Fixed(*c.AURCScore, 4), "the same, by out-of-domain score")
	}
	blocks := []block{b}
	if len(c.Sets) > 0 {
		s := block{Title: strings.TrimSuffix("Sets of classes, "+string(c.SetScore), ", "), Tables: []grid{byLevel(c.Sets, "size")}}
		if of := atLevel(c.Sets, e.Level); of != nil && len(of.Sizes) > 0 {
			s.Charts = append(s.Charts, sizes(*of))
		}
		if len(c.Sets) > 1 {
			s.Charts = append(s.Charts, levels(c.Sets))
		}
		blocks = append(blocks, s)
	}
	return blocks
}

// byLevel is what was covered at each level, by intervals or sets of a width or
// size.
func byLevel(list []evaluate.Coverage, width string) grid {
	var g grid
	endless := func(c evaluate.Coverage) float64 { return float64(c.Endless) }
	g.numbers("level", "the probability that is asked for", each(list, func(c evaluate.Coverage) float64 { return c.Asked }), threeDigits)
	g.rates("covered", "share of the rows that are covered", each(list, func(c evaluate.Coverage) evaluate.Rate { return c.Rate }))
	g.numbers("mean "+width, "", each(list, func(c evaluate.Coverage) float64 { return orNaN(c.Width) }), threeDigits)
	g.numbers("median", "", each(list, func(c evaluate.Coverage) float64 { return orNaN(c.Median) }), threeDigits)
	if slices.ContainsFunc(list, func(c evaluate.Coverage) bool { return c.Endless > 0 }) {
		g.numbers("endless", "intervals that do not end on both sides", each(list, endless), wholes)
	}
	return g
}

// target is what rows show of one target of a regressor.
func target(e *evaluate.Evaluation, i int) block {
	t := e.Targets[i]
	b := block{Title: "Intervals" + ofTarget(e, i)}
	if e.IntervalScore != "" {
		b.Title += ", " + e.IntervalScore
	}
	fact := func(x *float64, label string) {
		if x != nil {
			b.Facts = append(b.Facts, Fact{threeDigits(*x), label})
		}
	}
	fact(t.RMSE, "root mean squared error")
	fact(t.MAE, "mean absolute error")
	fact(t.R2, "R², the share of the variance explained")
	fact(t.CRPS, "CRPS of the head's quantiles")
	if len(t.Points) > 0 {
		b.Charts = append(b.Charts, against(t.Points, e.Level))
	}
	if t.PIT != nil {
		b.Charts = append(b.Charts, pit(t))
	}
	if len(t.Coverage) > 1 {
		b.Charts = append(b.Charts, levels(t.Coverage))
	}
	if len(t.Coverage) > 0 {
		b.Tables = append(b.Tables, byLevel(t.Coverage, "width"))
	}
	if c := atLevel(t.Coverage, e.Level); c != nil {
		if len(c.ByTenth) > 0 {
			b.Tables = append(b.Tables, ofParts("By tenth of the prediction", "prediction", c.ByTenth, e.Level))
		}
		if c.Slab != nil {
			b.Facts = append(b.Facts, Fact{display.Percent(c.Slab.Share) + " (" + spread(*c.Slab) + ")", "covered in the worst slab of the features"})
		}
	}
	return b
}

// joint is how often all targets are covered.
func joint(e *evaluate.Evaluation) block {
	b := block{Title: "All targets at once", Tables: []grid{byLevel(e.Joint, "width")}}
	if len(e.Joint) > 1 {
		b.Charts = append(b.Charts, levels(e.Joint))
	}
	return b
}

// ofParts is a table of coverage by part.
func ofParts(title, name string, list []evaluate.Rate, level float64) grid {
	g := grid{Title: title}
	g.parts(name, list)
	g.covered("covered", "share of the rows that are covered", "mean width", asking(list, level))
	return g
}

// parts adds the names of parts, and how many rows each has.
func (g *grid) parts(name string, list []evaluate.Rate) {
	g.text(name, each(list, func(r evaluate.Rate) string { return r.Name }))
	g.numbers("rows", "", each(list, func(r evaluate.Rate) float64 { return float64(r.Rows) }), wholes)
}

// covered adds shares and, under a name, widths.
func (g *grid) covered(name, title, width string, list []evaluate.Rate) {
	g.rates(name, title, list)
	g.numbers(width, "", each(list, func(r evaluate.Rate) float64 { return orNaN(r.Width) }), threeDigits)
}

func wholes(x float64) string { return display.Fixed(x, 0) }

// parts is a table of all that is known by class or by group, which by picks, the
// worst first.
func parts(e *evaluate.Evaluation, name string, by func(class, group []evaluate.Rate) []evaluate.Rate) *grid {
	var g grid
	var first []evaluate.Rate
	begin := func(list []evaluate.Rate) bool {
		if len(list) > 0 && first == nil {
			first = list
			g.parts(name, list)
		}
		return len(list) > 0 && len(list) == len(first)
	}
	sign := 1.
	for i, t := range e.Targets {
		if c := atLevel(t.Coverage, e.Level); c != nil {
			if list := by(c.ByClass, c.ByGroup); begin(list) {
				g.covered("covered"+ofTarget(e, i), "share of the rows that are covered", "mean width", asking(list, e.Level))
			}
		}
	}
	if c := e.Classes; c != nil {
		if s := atLevel(c.Sets, e.Level); s != nil {
			if list := by(s.ByClass, s.ByGroup); begin(list) {
				g.covered("in the set", "share of the rows whose set holds the class", "mean size", asking(list, e.Level))
			}
		}
		if list := by(c.ByClass, c.ByGroup); begin(list) {
			g.rates("right", "share of the answers that are right", list)
		}
	}
	if f := e.Flags; f != nil {
		if list := by(f.ByClass, f.ByGroup); begin(list) {
			if len(g.Heads) == 2 {
				sign = -1
			}
			g.rates("flagged", fmt.Sprintf("share of the rows flagged at alpha %g", e.Alpha), asking(list, e.Alpha))
		}
	}
	if first == nil {
		return nil
	}
	g.sort(first, sign)
	return &g
}
