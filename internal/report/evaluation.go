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

// Evaluation returns the page that shows how the .attach file named bundle did on the rows
// of a file. Violated guarantees come first.
func Evaluation(bundle, file string, e *evaluate.Evaluation) Page {
	p := Page{
		Title:  "Does " + bundle + " meet its guarantees?",
		Lead:   fmt.Sprintf("Evaluated on %s of %s; calibrated with %s.", rows.Count(e.Rows, "row"), file, rows.Count(e.CalibrationRows, "row")),
		Facts:  facts(e),
		blocks: evaluated(e),
	}
	b := &p.blocks[0]
	order := []string{hypothesis.Violated, words(hypothesis.TooFewRows), hypothesis.Met}
	for _, list := range [][]verdict{b.Verdicts, b.Folded} {
		slices.SortStableFunc(list, func(x, y verdict) int {
			return cmp.Compare(slices.Index(order, x.Label), slices.Index(order, y.Label))
		})
	}
	b.adviseOnce()
	for _, list := range [][]verdict{b.Verdicts, b.Folded, b.Notes} {
		for i, v := range list {
			list[i].Subject, list[i].Message, list[i].Advice = capital(v.Subject), capital(v.Message), capital(v.Advice)
		}
	}
	return p
}

// EvaluationText formats an evaluation for a terminal: first the verdicts, then the
// figures.
func EvaluationText(e *evaluate.Evaluation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", rows.Count(e.Rows, "row"), rows.Count(e.CalibrationRows, "calibration row"))
	if value, label := headline(e); value != "" {
		fmt.Fprintf(&b, "%s %s\n", value, label)
	}
	blocks := evaluated(e)
	blocks[0].adviseOnce()
	writeText(&b, blocks)
	return b.String()
}

// evaluated returns the blocks that pages and texts share: first the verdicts, then the
// figures.
func evaluated(e *evaluate.Evaluation) []block {
	blocks := []block{guarantees(e)}
	if e.Flags != nil {
		blocks = append(blocks, flags(e))
	}
	if e.Classifier != nil {
		blocks = append(blocks, predictions(e.Classifier))
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

// facts returns the figures at the top of the page.
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
		add(atAlpha(e.Flags.ByAlpha, e.Alpha), fmt.Sprintf("false alarms at alpha %g", e.Alpha))
	}
	if e.OOD != nil {
		add(atAlpha(e.OOD.ByAlpha, e.Alpha), fmt.Sprintf("of OOD rows detected at alpha %g", e.Alpha))
	}
	if c := e.Classifier; c != nil {
		add(c.Accuracy, "accuracy of the model")
		add(atLevel(c.Sets, e.Level), fmt.Sprintf("of labels in their sets at level %g", e.Level))
		add(c.Accepted, "of rows accepted")
	}
	if len(e.Targets) > 0 {
		label := fmt.Sprintf("of targets in their intervals at level %g", e.Level)
		if len(e.Targets) > 1 {
			label += ", " + TargetName(e, 0)
		}
		add(atLevel(e.Targets[0].Coverage, e.Level), label)
	}
	return facts
}

// headline returns how many guarantees are met, and a label for this figure. A guarantee
// for several groups or classes counts once. Both results are empty if nothing is
// guaranteed.
func headline(e *evaluate.Evaluation) (value, label string) {
	order := []string{hypothesis.Met, hypothesis.TooFewRows, hypothesis.Violated} // ascending; a guarantee gets the worst verdict of its parts
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

// mostNamed is the maximum number of guarantees for groups or classes that have a sentence
// of their own. It applies to each verdict and kind of guarantee.
const mostNamed = 10

// guarantees returns a block with the verdict and the advice on each guarantee, then limits
// and notes. If many groups or classes have a guarantee, it names the first ones and counts
// the others.
func guarantees(e *evaluate.Evaluation) block {
	b := block{Title: "Guarantees"}
	styles := map[string]string{hypothesis.Violated: "bad", hypothesis.TooFewRows: "open", hypothesis.Met: "good"}
	type tally struct{ verdict, kind, part string }
	counted, all := map[tally]int{}, map[string]int{}
	named := map[string]int{hypothesis.Violated: mostNamed, hypothesis.TooFewRows: mostNamed}
	var tallies []tally
	for _, p := range e.Guarantees {
		v := verdict{Label: words(p.Verdict), Style: styles[p.Verdict], Subject: kindName(p.Kind), Message: p.Message, Advice: p.Advice}
		if strings.HasPrefix(v.Advice, "calibrate with ") {
			v.Advice += " (attach fit --cal)"
		}
		if len(e.Targets) > 1 && p.Kind == hypothesis.IntervalCoverage {
			v.Subject += " of " + TargetName(e, p.Target)
		}
		if p.Name != "" {
			one := tally{p.Verdict, fmt.Sprintf("%s at %g", v.Subject, p.Nominal), p.Part}
			all[one.kind]++
			if counted[one] == 0 {
				tallies = append(tallies, one)
			}
			v.Subject += " of " + p.Part + " " + p.Name
			if counted[one]++; counted[one] > named[p.Verdict] {
				b.Folded = append(b.Folded, v)
				continue
			}
		}
		b.Verdicts = append(b.Verdicts, v)
	}
	for _, one := range tallies {
		more := ""
		if named[one.verdict] > 0 {
			more = " more"
		}
		if n := counted[one] - named[one.verdict]; n > 0 {
			message := fmt.Sprintf("%s, in %d%s of %s", one.kind, n, more, rows.Count(all[one.kind], one.part))
			b.Verdicts = append(b.Verdicts, verdict{Label: words(one.verdict), Style: styles[one.verdict], Message: message})
		}
	}
	if len(e.Guarantees) == 0 {
		b.Lead = "There is no guarantee that these rows can test."
	}
	var others []verdict
	for _, n := range e.Notes {
		v := verdict{Label: "note", Message: n.Message, Advice: n.Advice}
		if flag := flag(n); flag != "" {
			v.Advice += " (" + flag + ")"
		}
		if n.Part == "" {
			others = append(others, v)
			continue
		}
		v.Label, v.Style = "limit", "limit"
		b.Notes = append(b.Notes, v)
	}
	b.Notes = append(b.Notes, others...)
	return b
}

// adviseOnce removes advice that an earlier verdict of the block has given.
func (b *block) adviseOnce() {
	seen := map[string]bool{}
	for _, list := range [][]verdict{b.Verdicts, b.Folded} {
		for i := range list {
			if seen[list[i].Advice] {
				list[i].Advice = ""
			}
			seen[list[i].Advice] = true
		}
	}
}

// words turns a JSON name such as too_few_rows into words.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// kindName returns the words for a kind of guarantee in a sentence.
func kindName(kind string) string {
	if kind == hypothesis.FalseAlarmRate {
		return "false-alarm rate"
	}
	return words(kind)
}

// flag returns the command-line flag that a note recommends, or "".
func flag(n evaluate.Note) string {
	switch n.Option {
	case "":
		return ""
	case "groups": // the advice is to fit again
		return "attach fit --groups NAME"
	}
	return strings.TrimSpace("--" + strings.ReplaceAll(n.Option, "_", "-") + " " + n.Value)
}

// atAlpha returns the rate whose nominal rate is alpha, or nil.
func atAlpha(list []evaluate.Rate, alpha float64) *evaluate.Rate {
	for i, r := range list {
		if r.Nominal == alpha {
			return &list[i]
		}
	}
	return nil
}

// atLevel returns the coverage at a level, or nil.
func atLevel(list []evaluate.Coverage, level float64) *evaluate.Rate {
	return atAlpha(each(list, func(c evaluate.Coverage) evaluate.Rate { return c.Rate }), level)
}

// orNaN returns the number that x points to, or NaN if x is nil.
func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// optional formats the number that x points to, or a dash if x is nil.
func optional(x *float64) string {
	if x == nil {
		return "–"
	}
	return fourDigits(*x)
}

// TargetName returns the name of a target, or "target" and its number if it has none.
func TargetName(e *evaluate.Evaluation, i int) string {
	return cmp.Or(e.Targets[i].Name, fmt.Sprintf("target %d", i))
}

func nominal(r evaluate.Rate) float64 { return r.Nominal }

// withNominal returns the rates with the given nominal rate. 0 means that there is no
// nominal rate.
func withNominal(list []evaluate.Rate, nominal float64) []evaluate.Rate {
	return each(list, func(r evaluate.Rate) evaluate.Rate { r.Nominal = nominal; return r })
}

// flags shows how many in-distribution and out-of-distribution rows are flagged.
func flags(e *evaluate.Evaluation) block {
	b := block{Title: "OOD flags"}
	names, all, rates := []string(nil), e.Flags.ByAlpha, e.Flags.ByAlpha
	draw := func(title, name string, h evaluate.Histogram, n int) {
		c := counts(title, "p-value", h)
		c.Note = "Dashed: expected count if the rows come from the source of the calibration rows."
		b.Charts = append(b.Charts, c)
		names = append(names, slices.Repeat([]string{name}, n)...)
	}
	draw("p-values", "in-distribution", e.Flags.PValues, len(all))
	if o := e.OOD; o != nil {
		draw("p-values of OOD rows", "OOD", o.PValues, len(o.ByAlpha))
		b.Charts[1].Areas[0].Color = 1
		all, rates = slices.Concat(all, o.ByAlpha), slices.Concat(rates, withNominal(o.ByAlpha, 0))
	}
	g := grid{Title: "Flagged rows by alpha"}
	g.text("rows", names)
	g.numbers("alpha", "the guaranteed false-alarm rate", each(all, nominal), exactly)
	g.withCounts("flagged", "fraction of the rows that are flagged", rates)
	b.Tables = []grid{g}
	b.difference("p-values", &e.Flags.PValues)
	if o := e.OOD; o != nil {
		b.line("AUROC %.4f, FPR95 %.4f", o.AUROC, o.FPR95)
	}
	at := " at alpha " + exactly(e.Alpha)
	b.parts("group", "flagged by group", at, "flagged", "most", withNominal(e.Flags.ByGroup, e.Alpha), "")
	if n := len(b.Tables); len(e.Flags.ByClass) > 1 {
		b.parts("class", "flagged by class", at, "flagged", "most", withNominal(e.Flags.ByClass, e.Alpha), "")
		b.Tables[n].PageOnly = true
	}
	return b
}

// exactly formats a number with all its digits.
func exactly(x float64) string { return fmt.Sprint(x) }

// line adds a sentence below the last table.
func (b *block) line(format string, args ...any) {
	if len(b.Tables) == 0 {
		b.Tables = []grid{{}}
	}
	last := &b.Tables[len(b.Tables)-1]
	last.Below = append(last.Below, fmt.Sprintf(format, args...))
}

// difference adds the result of a test: do the p-values or PIT values have the same
// distribution as those of the calibration rows?
func (b *block) difference(what string, h *evaluate.Histogram) {
	if h == nil || h.KSStatistic == nil || h.KSPValue == nil {
		return
	}
	verdict := "no evidence that these rows differ from the calibration rows"
	if *h.KSPValue <= hypothesis.Unlikely {
		verdict = "these rows differ from the calibration rows"
	}
	b.line("%s: p = %s (Kolmogorov–Smirnov, distance %s): %s", what, display.Number(*h.KSPValue, 2), display.Fixed(*h.KSStatistic, 3), verdict)
}

// withCounts adds a column of rates, and a column with the number of rows of each rate.
func (g *grid) withCounts(name, title string, list []evaluate.Rate) {
	g.rates(name, title, list)
	g.numbers("rows", "", each(list, func(r evaluate.Rate) float64 { return float64(r.Rows) }), wholes)
}

// widths adds a column with the mean widths of intervals, or the mean sizes of prediction
// sets.
func (g *grid) widths(name string, list []evaluate.Rate) {
	g.numbers(name, "", each(list, func(r evaluate.Rate) float64 { return orNaN(r.MeanWidth) }), fourDigits)
}

// parts adds a table of rates by class, group or decile. The table has a column of widths
// unless width is empty. A page adds the text at to the title. worst is "most" or "least",
// as in rank. It is empty for deciles, because they keep their order.
func (b *block) parts(part, title, at, rate, worst string, list []evaluate.Rate, width string) {
	if len(list) < 2 {
		return
	}
	g := grid{Title: capital(title) + at, Name: title}
	g.text(part, each(list, func(r evaluate.Rate) string { return r.Name }))
	g.withCounts(rate, "fraction of the rows of each "+part, list)
	if width != "" {
		g.widths(width, list)
	}
	if worst != "" {
		g.rank(worst, list)
	}
	b.Tables = append(b.Tables, g)
}

// predictions shows the accuracy and the confidence of a classifier.
func predictions(c *evaluate.Classifier) block {
	b := block{Title: "Accuracy and confidence", Charts: []chart{reliability(c), riskCoverage(c)}}
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
	add("accepted", complement(c.SelectiveError))
	accuracy, confidence := grid{Title: "Accuracy"}, grid{Title: "Confidence"}
	accuracy.text("rows", names)
	accuracy.withCounts("accuracy", "fraction of the predictions that are right", list)
	names, fits := []string{"uncalibrated"}, []evaluate.Reliability{c.Uncalibrated}
	if c.Calibrated != nil {
		names, fits = append(names, "temperature "+display.Number(c.Temperature, 3)), append(fits, *c.Calibrated)
	}
	confidence.text("confidence", names)
	confidence.numbers("NLL", "mean negative log-likelihood of the labels", each(fits, func(r evaluate.Reliability) float64 { return orNaN(r.NLL) }), fourDigits)
	confidence.numbers("ECE", "expected calibration error", each(fits, func(r evaluate.Reliability) float64 { return r.ECE }), func(x float64) string { return display.Fixed(x, 4) })
	b.Tables = []grid{accuracy, confidence}
	by := ""
	if c.AURCOODScore != nil {
		by = ", " + fourDigits(*c.AURCOODScore) + " by OOD score"
	}
	b.line("AURC %s by confidence%s", fourDigits(c.AURC), by)
	b.parts("class", "accuracy by class", "", "accuracy", "least", c.ByClass, "")
	b.parts("group", "accuracy by group", "", "accuracy", "least", c.ByGroup, "")
	return b
}

// complement returns 1 minus an error rate, which is the accuracy of the same rows. It
// returns nil for nil.
func complement(errors *evaluate.Rate) *evaluate.Rate {
	if errors == nil {
		return nil
	}
	return &evaluate.Rate{Rows: errors.Rows, Fraction: 1 - errors.Fraction, Low: 1 - errors.High, High: 1 - errors.Low}
}

// sets shows the coverage and the size of prediction sets.
func sets(e *evaluate.Evaluation) block {
	c := e.Classifier
	b := block{Title: strings.TrimSuffix("Prediction sets, "+c.SetScore, ", ")}
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

// target shows the intervals of one target of a regressor.
func target(e *evaluate.Evaluation, i int) block {
	t := e.Targets[i]
	name, title, prefix := "intervals", "Prediction intervals", ""
	if len(e.Targets) > 1 {
		name = TargetName(e, i)
		title, prefix = title+", "+name, name+": "
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
		b.line("%sRMSE %s, MAE %s, R² %s of the predictions; CRPS %s of the quantiles", prefix, optional(t.RMSE), optional(t.MAE), optional(t.R2), optional(t.CRPS))
	}
	b.difference(prefix+"PIT", t.PITCalibrated)
	return b
}

// coverage shows the coverage of intervals or prediction sets at each level. At the level
// of the evaluation, it also shows the coverage by class, group and decile.
func (b *block) coverage(name string, e *evaluate.Evaluation, all []evaluate.Coverage) {
	if len(all) == 0 {
		return
	}
	sets, width, median := all[0].SizeCounts != nil, "mean width", "median width"
	special, title, count := "infinite", "intervals with an infinite bound", func(c evaluate.Coverage) float64 { return float64(c.Infinite) }
	if sets {
		width, median = "mean size", "median size"
		special, title, count = "empty", "sets without a class", func(c evaluate.Coverage) float64 { return float64(c.SizeCounts[0]) }
	}
	covered := each(all, func(c evaluate.Coverage) evaluate.Rate { return c.Rate })
	g := grid{Title: "Coverage by level", Name: name}
	g.numbers("level", "the guaranteed coverage", each(covered, nominal), exactly)
	g.rates("coverage", "fraction of the rows that are covered", covered)
	g.widths(width, covered)
	g.numbers(median, "", each(all, func(c evaluate.Coverage) float64 { return orNaN(c.MedianWidth) }), fourDigits)
	if n := each(all, count); slices.Max(n) > 0 {
		g.numbers(special, title, n, wholes)
	}
	g.rates("worst slab", "coverage of the slab of the feature space that is covered least", each(all, func(c evaluate.Coverage) evaluate.Rate {
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
			at := fmt.Sprintf(" at level %g", e.Level)
			b.parts("class", "coverage by class", at, "coverage", "least", withNominal(c.ByClass, c.Nominal), width)
			b.parts("group", "coverage by group", at, "coverage", "least", withNominal(c.ByGroup, c.Nominal), width)
			b.parts("prediction", "coverage by decile of the prediction", at, "coverage", "", withNominal(c.ByDecile, c.Nominal), width)
		}
	}
}

func wholes(x float64) string { return display.Fixed(x, 0) }
