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

// Evaluation is the page of what rows show of a bundle. Broken promises stand first.
func Evaluation(bundle, file string, e *evaluate.Evaluation) Page {
	p := Page{
		Title:  "Does " + bundle + " keep its promises?",
		Lead:   fmt.Sprintf("Evaluated on %s of %s, calibrated with %s.", rows.Count(e.Rows, "row"), file, rows.Count(e.CalibrationRows, "row")),
		Facts:  facts(e),
		blocks: evaluated(e),
	}
	b := &p.blocks[0]
	worst := []string{hypothesis.Violated, words(hypothesis.TooFewRows), hypothesis.Met}
	for _, list := range [][]verdict{b.Verdicts, b.Folded} {
		slices.SortStableFunc(list, func(x, y verdict) int {
			return cmp.Compare(slices.Index(worst, x.Word), slices.Index(worst, y.Word))
		})
	}
	for _, list := range [][]verdict{b.Verdicts, b.Folded, b.Notes} {
		for i, v := range list {
			list[i].What, list[i].Says, list[i].Do = capital(v.What), capital(v.Says), capital(v.Do)
		}
	}
	return p
}

// EvaluationText is what the page says, for a terminal: promises, then figures.
func EvaluationText(e *evaluate.Evaluation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", rows.Count(e.Rows, "row"), rows.Count(e.CalibrationRows, "calibration row"))
	if value, label := headline(e); value != "" {
		fmt.Fprintf(&b, "%s %s\n", value, label)
	}
	writeText(&b, evaluated(e))
	return b.String()
}

// evaluated is what a page and a text show: promises, then figures.
func evaluated(e *evaluate.Evaluation) []block {
	blocks := []block{promises(e)}
	if e.Flags != nil {
		blocks = append(blocks, flags(e))
	}
	if e.Classifier != nil {
		blocks = append(blocks, answers(e.Classifier))
		if len(e.Classifier.Sets) > 0 {
			blocks = append(blocks, sets(e))
		}
	}
	for i := range e.Targets {
		blocks = append(blocks, target(e, i))
	}
	if len(e.Joint) > 0 {
		b := block{Title: "All targets at once"}
		b.coverage("all targets at once, "+e.IntervalScore, e, e.Joint)
		blocks = append(blocks, b)
	}
	return blocks
}

// facts are the figures that stand at the head of the page.
func facts(e *evaluate.Evaluation) []Fact {
	var facts []Fact
	add := func(r *evaluate.Rate, label string) {
		if r != nil {
			facts = append(facts, Fact{display.Percent(r.Fraction), label})
		}
	}
	if value, label := headline(e); value != "" {
		facts = append(facts, Fact{value, label})
	}
	if e.Flags != nil {
		add(atAlpha(e.Flags.ByAlpha, e.Alpha), fmt.Sprintf("flagged at alpha %g", e.Alpha))
	}
	if c := e.Classifier; c != nil {
		add(c.Accuracy, "of the answers are right")
		add(atLevel(c.Sets, e.Level), fmt.Sprintf("of the sets at level %g hold the class", e.Level))
		add(c.Accepted, "of the rows accepted")
	}
	if len(e.Targets) > 0 {
		label := fmt.Sprintf("covered at level %g", e.Level)
		if len(e.Targets) > 1 {
			label += ", " + TargetName(e, 0)
		}
		add(atLevel(e.Targets[0].Coverage, e.Level), label)
	}
	if e.OOD != nil {
		add(atAlpha(e.OOD.ByAlpha, e.Alpha), "of the rows from elsewhere flagged")
	}
	return facts
}

// headline says how many guarantees are met, in a figure and what it is of. Those of
// several groups or classes count as one. Both are empty if nothing is guaranteed.
func headline(e *evaluate.Evaluation) (value, label string) {
	order := []string{hypothesis.Met, hypothesis.TooFewRows, hypothesis.Violated} // a part decides for all
	worst, counts, limits := map[string]int{}, make([]int, len(order)), 0
	for _, p := range e.Guarantees {
		guarantee := fmt.Sprintf("%s %d %g", p.Kind, p.Target, p.Nominal)
		worst[guarantee] = max(worst[guarantee], slices.Index(order, p.Verdict))
	}
	for _, verdict := range worst {
		counts[verdict]++
	}
	for _, n := range e.Notes {
		if n.Part != "" {
			limits++
		}
	}
	met, unknown, violated, all := counts[0], counts[1], counts[2], len(worst)
	_, guarantees, _ := strings.Cut(rows.Count(all, "guarantee"), " ")
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

// mostNamed is how many promises of one verdict and kind, each of a group or class,
// are sentences.
const mostNamed = 10

// promises are the verdicts, what to do once, for those that are broken first, and what
// to know beside them. Those of groups that are kept, or many, are counted.
func promises(e *evaluate.Evaluation) block {
	b := block{Title: "Promises"}
	kinds := map[string]string{hypothesis.Violated: "bad", hypothesis.TooFewRows: "open", hypothesis.Met: "good"}
	type tally struct{ verdict, kind, part string }
	counted, made := map[tally]int{}, map[string]int{}
	named := map[string]int{hypothesis.Violated: mostNamed, hypothesis.TooFewRows: mostNamed}
	var tallies []tally
	todo, explained, folded := map[string][]string{}, 0, map[string]bool{}
	for _, p := range e.Guarantees {
		v := verdict{Word: words(p.Verdict), Kind: kinds[p.Verdict], What: words(p.Kind), Says: p.Message}
		if len(e.Targets) > 1 && p.Kind == hypothesis.IntervalCoverage {
			v.What += " of " + TargetName(e, p.Target)
		}
		if p.Name != "" {
			one := tally{p.Verdict, fmt.Sprintf("%s at %g", v.What, p.Nominal), p.Part}
			made[one.kind]++
			if counted[one] == 0 {
				tallies = append(tallies, one)
			}
			v.What += " of " + p.Part + " " + p.Name
			if counted[one]++; counted[one] > named[p.Verdict] {
				if !folded[p.Advice] {
					v.Do, folded[p.Advice] = p.Advice, true
				}
				b.Folded = append(b.Folded, v)
				continue
			}
		}
		if p.Verdict == hypothesis.TooFewRows {
			v.Do = p.Advice
		} else if p.Advice != "" && !slices.Contains(todo[p.Verdict], p.Advice) {
			at := len(todo[p.Verdict])
			if p.ExplainedByNote {
				at, explained = explained, explained+1
			}
			todo[p.Verdict] = slices.Insert(todo[p.Verdict], at, p.Advice)
		}
		b.Verdicts = append(b.Verdicts, v)
	}
	for _, one := range tallies {
		more := ""
		if named[one.verdict] > 0 {
			more = " more"
		}
		if n := counted[one] - named[one.verdict]; n > 0 {
			says := fmt.Sprintf("%s, in %d%s of %s", one.kind, n, more, rows.Count(made[one.kind], one.part))
			b.Verdicts = append(b.Verdicts, verdict{Word: words(one.verdict), Kind: kinds[one.verdict], Says: says})
		}
	}
	if len(e.Guarantees) == 0 {
		b.Lead = "Nothing is promised that these rows can show."
	}
	for _, do := range append(todo[hypothesis.Violated], todo[hypothesis.Met]...) {
		if strings.HasPrefix(do, "calibrate with ") {
			do += " (attach fit --cal)"
		}
		b.Notes = append(b.Notes, verdict{Word: "what to do", Says: do})
	}
	var others []verdict
	for _, n := range e.Notes {
		v := verdict{Word: "note", Says: n.Message, Do: n.Advice}
		if flag := flag(n); flag != "" {
			v.Do += " (" + flag + ")"
		}
		if n.Part == "" {
			others = append(others, v)
			continue
		}
		v.Word, v.Kind = "limit", "limit"
		b.Notes = append(b.Notes, v)
	}
	b.Notes = append(b.Notes, others...)
	return b
}

// words writes a name of the JSON form as people do.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// flag is the flag that makes the choice that a note advises, or "".
func flag(n evaluate.Note) string {
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
	for i, r := range list {
		if r.Nominal == asked {
			return &list[i]
		}
	}
	return nil
}

// atLevel is the coverage at the level that was asked for, or nil.
func atLevel(list []evaluate.Coverage, level float64) *evaluate.Rate {
	return atAlpha(each(list, func(c evaluate.Coverage) evaluate.Rate { return c.Rate }), level)
}

// orNaN is the number, or NaN where there is none.
func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// optional writes a number, or a dash where there is none.
func optional(x *float64) string {
	if x == nil {
		return "–"
	}
	return fourDigits(*x)
}

// TargetName is a target's name or else its number.
func TargetName(e *evaluate.Evaluation, i int) string {
	return cmp.Or(e.Targets[i].Name, fmt.Sprintf("target %d", i))
}

func asked(r evaluate.Rate) float64 { return r.Nominal }

// asking are rates of which that is asked, 0 of none.
func asking(list []evaluate.Rate, asked float64) []evaluate.Rate {
	return each(list, func(r evaluate.Rate) evaluate.Rate { r.Nominal = asked; return r })
}

// flags is what is flagged of the rows, and of those from elsewhere.
func flags(e *evaluate.Evaluation) block {
	b := block{Title: "Which rows are flagged"}
	names, all, rates := []string(nil), e.Flags.ByAlpha, e.Flags.ByAlpha
	draw := func(title, name string, h evaluate.Histogram, n int) {
		c := counts(title, "p-value", h)
		c.Note = "Dashed: expected of rows like the calibration rows."
		b.Charts = append(b.Charts, c)
		names = append(names, slices.Repeat([]string{name}, n)...)
	}
	draw("p-values", "in-domain", e.Flags.PValues, len(all))
	if o := e.OOD; o != nil {
		draw("p-values of rows from elsewhere", "from elsewhere", o.PValues, len(o.ByAlpha))
		b.Charts[1].Areas[0].Color = 1
		all, rates = slices.Concat(all, o.ByAlpha), slices.Concat(rates, asking(o.ByAlpha, 0))
	}
	var g grid
	g.text("flagged", names)
	g.numbers("asked", "the share of in-domain inputs that may be flagged by mistake", each(all, asked), exactly)
	g.shares("share of the rows that are flagged", rates)
	b.Tables = []grid{g}
	b.unlike("p-values", &e.Flags.PValues)
	if o := e.OOD; o != nil {
		b.line("AUROC %.4f, FPR95 %.4f", o.AUROC, o.FPR95)
	}
	head := "flagged at " + exactly(e.Alpha)
	b.parts(head, "most", asking(e.Flags.ByGroup, e.Alpha), "")
	if n := len(b.Tables); len(e.Flags.ByClass) > 1 {
		b.parts(head+", by class", "most", asking(e.Flags.ByClass, e.Alpha), "")
		b.Tables[n].PageOnly = true
	}
	return b
}

// exactly writes a share as people gave it.
func exactly(x float64) string { return fmt.Sprint(x) }

// line says something below the last table.
func (b *block) line(format string, args ...any) {
	if len(b.Tables) == 0 {
		b.Tables = []grid{{}}
	}
	last := &b.Tables[len(b.Tables)-1]
	last.Below = append(last.Below, fmt.Sprintf(format, args...))
}

// unlike says how far numbers are from those of the calibration rows.
func (b *block) unlike(what string, h *evaluate.Histogram) {
	if h != nil && h.KSStatistic != nil {
		b.line("%s differ from those of the calibration rows by %s at most; %s is how likely that is by chance", what, display.Fixed(*h.KSStatistic, 3), display.Number(*h.KSPValue, 3))
	}
}

// shares adds shares of rows, and of how many.
func (g *grid) shares(title string, list []evaluate.Rate) {
	g.rates("share", title, list)
	g.numbers("rows", "", each(list, func(r evaluate.Rate) float64 { return float64(r.Rows) }), wholes)
}

// widths adds the mean widths of intervals or sizes of sets.
func (g *grid) widths(name string, list []evaluate.Rate) {
	g.numbers(name, "", each(list, func(r evaluate.Rate) float64 { return orNaN(r.MeanWidth) }), fourDigits)
}

// parts adds a table of shares by class, group or tenth and, under a name, of widths. The
// most or the least are the worst, and stand first in a page; tenths, which have an
// order of their own, have neither.
func (b *block) parts(head, worst string, list []evaluate.Rate, width string) {
	if len(list) < 2 {
		return
	}
	var g grid
	g.text(head, each(list, func(r evaluate.Rate) string { return r.Name }))
	g.shares("share of the rows of each", list)
	if width != "" {
		g.widths(width, list)
	}
	if worst != "" {
		g.rank(worst, list)
	}
	b.Tables = append(b.Tables, g)
}

// answers are a classifier's.
func answers(c *evaluate.Classifier) block {
	b := block{Title: "Answers", Charts: []chart{reliability(c), riskCoverage(c)}}
	var names []string
	var list []evaluate.Rate
	add := func(name string, r *evaluate.Rate) {
		if r != nil {
			names, list = append(names, name), append(list, *r)
		}
	}
	add("all", c.Accuracy)
	add("flagged", c.AccuracyFlagged)
	add("not flagged", c.AccuracyUnflagged)
	add("accepted", right(c.SelectiveError))
	var accuracy, confidence grid
	accuracy.text("accuracy", names)
	accuracy.shares("share of the answers that are right", list)
	names, fits := []string{"of the network"}, []evaluate.Reliability{c.Uncalibrated}
	if c.Calibrated != nil {
		names, fits = append(names, "at temperature "+display.Number(c.Temperature, 3)), append(fits, *c.Calibrated)
	}
	confidence.text("confidence", names)
	confidence.numbers("NLL", "mean negative log-likelihood of the labels", each(fits, func(r evaluate.Reliability) float64 { return orNaN(r.NLL) }), fourDigits)
	confidence.numbers("ECE", "expected calibration error", each(fits, func(r evaluate.Reliability) float64 { return r.ECE }), func(x float64) string { return display.Fixed(x, 4) })
	b.Tables = []grid{accuracy, confidence}
	b.line("AURC %s by confidence, %s by score", optional(&c.AURC), optional(c.AURCOODScore))
	b.parts("accuracy by class", "least", c.ByClass, "")
	b.parts("accuracy by group", "least", c.ByGroup, "")
	return b
}

// right are the rows that are not errors.
func right(errors *evaluate.Rate) *evaluate.Rate {
	if errors == nil {
		return nil
	}
	return &evaluate.Rate{Rows: errors.Rows, Fraction: 1 - errors.Fraction, Low: 1 - errors.High, High: 1 - errors.Low}
}

// sets are those of classes.
func sets(e *evaluate.Evaluation) block {
	c := e.Classifier
	b := block{Title: strings.TrimSuffix("Sets of classes, "+c.SetScore, ", ")}
	if i := slices.IndexFunc(c.Sets, func(s evaluate.Coverage) bool { return s.Nominal == e.Level && len(s.SizeCounts) > 0 }); i >= 0 {
		b.Charts = append(b.Charts, sizes(c.Sets[i]))
	}
	name := "sets, " + c.SetScore
	if c.SetsBy != "" {
		name += " by " + c.SetsBy
	}
	b.coverage(name, e, c.Sets)
	return b
}

// target is what rows show of one target of a regressor.
func target(e *evaluate.Evaluation, i int) block {
	t := e.Targets[i]
	name, title := "intervals", "Intervals"
	if len(e.Targets) > 1 {
		name = TargetName(e, i)
		title += ", " + name
	}
	b := block{Title: strings.TrimSuffix(title+", "+e.IntervalScore, ", ")}
	if len(t.Points) > 0 {
		b.Charts = append(b.Charts, against(t.Points, e.Level))
	}
	if t.PIT != nil {
		b.Charts = append(b.Charts, pit(t))
	}
	b.coverage(name+", "+e.IntervalScore, e, t.Coverage)
	if t.RMSE != nil {
		b.line("%s: RMSE %s, MAE %s, R² %s of the network's own prediction; CRPS %s of the head's", name, optional(t.RMSE), optional(t.MAE), optional(t.R2), optional(t.CRPS))
	}
	b.unlike("levels of the targets", t.PITCalibrated)
	return b
}

// coverage adds intervals or sets by level, and those of the evaluation's own by what rows
// are divided by.
func (b *block) coverage(name string, e *evaluate.Evaluation, all []evaluate.Coverage) {
	if len(all) == 0 {
		return
	}
	sets, width := all[0].SizeCounts != nil, "mean width"
	ends, title, count := "endless", "intervals that do not end on both sides", func(c evaluate.Coverage) float64 { return float64(c.Infinite) }
	if sets {
		width = "mean size"
		ends, title, count = "empty", "sets without a class", func(c evaluate.Coverage) float64 { return float64(c.SizeCounts[0]) }
	}
	covered := each(all, func(c evaluate.Coverage) evaluate.Rate { return c.Rate })
	g := grid{Name: name}
	g.numbers("level", "the probability that is asked for", each(covered, asked), exactly)
	g.rates("covered", "share of the rows that are covered", covered)
	g.widths(width, covered)
	g.numbers("median", "", each(all, func(c evaluate.Coverage) float64 { return orNaN(c.MedianWidth) }), fourDigits)
	if n := each(all, count); !sets || slices.Max(n) > 0 {
		g.numbers(ends, title, n, wholes)
	}
	g.rates("worst slab", "share of the rows that are covered in the slab of the features where it is least", each(all, func(c evaluate.Coverage) evaluate.Rate {
		if c.WorstSlab == nil {
			return evaluate.Rate{Fraction: math.NaN()}
		}
		return *c.WorstSlab
	}))
	g.Heads[len(g.Heads)-1].Interval = false
	b.Tables = append(b.Tables, g)
	if len(all) > 1 {
		b.Charts = append(b.Charts, levels(all))
	}
	for _, c := range all {
		if c.Nominal == e.Level {
			b.parts("covered, by class", "least", asking(c.ByClass, c.Nominal), width)
			b.parts("covered, by group", "least", asking(c.ByGroup, c.Nominal), width)
			b.parts("covered, by prediction", "", asking(c.ByDecile, c.Nominal), width)
		}
	}
}

func wholes(x float64) string { return display.Fixed(x, 0) }
