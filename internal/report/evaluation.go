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
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Evaluation returns the page that shows how the .attach file named bundle did on the rows
// of a file. Violated guarantees come first.
func Evaluation(bundle, file string, e *evaluate.Evaluation) Page {
	p := Page{
		Title:  "Does " + bundle + " meet its guarantees?",
		Lead:   fmt.Sprintf("Evaluated on %s of %s; calibrated with %s.", rows.Count(e.Rows, "row"), file, rows.Count(e.CalibrationRows, "row")),
		Facts:  evaluationFacts(e),
		blocks: evaluationBlocks(e),
	}
	b := &p.blocks[0]
	order := []string{hypothesis.Violated, withSpaces(hypothesis.TooFewRows), hypothesis.Met}
	for _, list := range [][]verdict{b.Verdicts, b.Folded} {
		slices.SortStableFunc(list, func(x, y verdict) int {
			return cmp.Compare(slices.Index(order, x.Label), slices.Index(order, y.Label))
		})
	}
	b.removeRepeatedAdvice()
	for _, list := range [][]verdict{b.Verdicts, b.Folded, b.Notes} {
		for i, v := range list {
			list[i].Subject, list[i].Message, list[i].Advice = capitalise(v.Subject), capitalise(v.Message), capitalise(v.Advice)
		}
	}
	return p
}

// EvaluationText formats an evaluation for a terminal: first the verdicts, then the
// figures.
func EvaluationText(e *evaluate.Evaluation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", rows.Count(e.Rows, "row"), rows.Count(e.CalibrationRows, "calibration row"))
	if value, label := countGuarantees(e); value != "" {
		fmt.Fprintf(&b, "%s %s\n", value, label)
	}
	blocks := evaluationBlocks(e)
	blocks[0].removeRepeatedAdvice()
	writeText(&b, blocks)
	return b.String()
}

// evaluationBlocks returns the blocks that pages and texts share: first the verdicts, then
// the figures.
func evaluationBlocks(e *evaluate.Evaluation) []block {
	blocks := []block{guaranteesBlock(e)}
	if e.Flags != nil {
		blocks = append(blocks, flagsBlock(e))
	}
	if e.Classifier != nil {
		blocks = append(blocks, predictionsBlock(e.Classifier))
		if len(e.Classifier.Sets) > 0 {
			blocks = append(blocks, setsBlock(e))
		}
	}
	if e.ErrorEstimate != nil || e.FewLabels != nil {
		blocks = append(blocks, unlabelledBlock(e))
	}
	for i := range e.Targets {
		blocks = append(blocks, targetBlock(e, i))
	}
	if len(e.Joint) > 0 {
		b := block{Title: "All targets at once"}
		b.addCoverage("all targets at once, "+strings.TrimPrefix(intervalKind(e), "bounds of "), e, e.Joint)
		b.addRegions(e)
		b.addConditional(e, hypothesis.JointCoverage, 0)
		blocks = append(blocks, b)
	}
	for i := range e.Series {
		blocks = append(blocks, seriesBlock(e, &e.Series[i]))
	}
	return blocks
}

// evaluationFacts returns the figures at the top of the page.
func evaluationFacts(e *evaluate.Evaluation) []Fact {
	var facts []Fact
	add := func(r *evaluate.Rate, label string) {
		if r != nil {
			facts = append(facts, Fact{display.Percent(r.Fraction), label})
		}
	}
	if value, label := countGuarantees(e); value != "" {
		facts = append(facts, Fact{value, label})
	}
	if e.Flags != nil {
		add(rateAt(e.Flags.ByAlpha, e.Alpha), fmt.Sprintf("false alarms at alpha %g", e.Alpha))
	}
	if e.OOD != nil {
		add(rateAt(e.OOD.ByAlpha, e.Alpha), fmt.Sprintf("of OOD rows detected at alpha %g", e.Alpha))
	}
	if u := e.ErrorEstimate; u != nil && u.Error != nil {
		facts = append(facts, Fact{display.Percent(1 - *u.Error), "estimated accuracy of rows not flagged"})
	}
	if c := e.Classifier; c != nil {
		add(c.Accuracy, "accuracy of the model")
		add(coverageAt(c.Sets, e.Level), fmt.Sprintf("of labels in their sets at level %g", e.Level))
		add(c.Accepted, "of rows accepted")
	}
	if len(e.Targets) > 0 {
		label := fmt.Sprintf("of targets in their intervals at level %g", e.Level)
		if len(e.Targets) > 1 {
			label += ", " + TargetName(e, 0)
		}
		add(coverageAt(e.Targets[0].Coverage, e.Level), label)
	}
	return facts
}

// countGuarantees returns how many guarantees are met, and a label for this figure. If all
// of them have too few rows, it returns how many there are. A guarantee for several groups
// or classes counts once. Both results are empty if nothing is guaranteed.
func countGuarantees(e *evaluate.Evaluation) (value, label string) {
	order := []string{hypothesis.Met, hypothesis.TooFewRows, hypothesis.Violated} // from best to worst; a guarantee gets the worst verdict of its parts
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

// maxNamed is the maximum number of guarantees for groups or classes that have a sentence
// of their own. It applies to each kind of guarantee that is violated, and to each kind
// that has too few rows.
const maxNamed = 10

// guaranteesBlock returns a block with the verdict and the advice on each guarantee, then
// limits and notes. If many groups or classes have a guarantee, it names the first ones and
// counts the others. It only counts those for which the guarantee is met.
func guaranteesBlock(e *evaluate.Evaluation) block {
	b := block{Title: "Guarantees"}
	styles := map[string]string{hypothesis.Violated: "bad", hypothesis.TooFewRows: "open", hypothesis.Met: "good"}
	type tally struct{ verdict, kind, part string }
	counts, all := map[tally]int{}, map[string]int{}
	maxSentences := map[string]int{hypothesis.Violated: maxNamed, hypothesis.TooFewRows: maxNamed}
	var tallies []tally
	for _, p := range e.Guarantees {
		v := verdict{Label: withSpaces(p.Verdict), Style: styles[p.Verdict], Subject: kindName(p.Kind), Message: p.Message, Advice: p.Advice}
		if strings.HasPrefix(v.Advice, "calibrate with ") {
			v.Advice += " (attach fit --cal)"
		}
		if len(e.Targets) > 1 && p.Kind == hypothesis.IntervalCoverage {
			v.Subject += " of " + TargetName(e, p.Target)
		}
		if p.Name != "" {
			key := tally{p.Verdict, fmt.Sprintf("%s at %g", v.Subject, p.Nominal), p.Part}
			all[key.kind]++
			if counts[key] == 0 {
				tallies = append(tallies, key)
			}
			v.Subject += " of " + p.Part + " " + p.Name
			if counts[key]++; counts[key] > maxSentences[p.Verdict] {
				b.Folded = append(b.Folded, v)
				continue
			}
		}
		b.Verdicts = append(b.Verdicts, v)
	}
	for _, key := range tallies {
		suffix := ""
		if maxSentences[key.verdict] > 0 {
			suffix = " more"
		}
		if n := counts[key] - maxSentences[key.verdict]; n > 0 {
			message := fmt.Sprintf("%s, in %d%s of %s", key.kind, n, suffix, rows.Count(all[key.kind], key.part))
			b.Verdicts = append(b.Verdicts, verdict{Label: withSpaces(key.verdict), Style: styles[key.verdict], Message: message})
		}
	}
	if len(e.Guarantees) == 0 {
		b.Lead = "There is no guarantee that these rows can test."
	}
	var notes []verdict
	for _, n := range e.Notes {
		v := verdict{Label: "note", Message: n.Message, Advice: n.Advice}
		if flag := adviceFlag(n); flag != "" {
			v.Advice += " (" + flag + ")"
		}
		if n.Part == "" {
			notes = append(notes, v)
			continue
		}
		v.Label, v.Style = "limit", "limit"
		b.Notes = append(b.Notes, v)
	}
	b.Notes = append(b.Notes, notes...)
	return b
}

// removeRepeatedAdvice removes advice that an earlier verdict of the block has given.
func (b *block) removeRepeatedAdvice() {
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

// withSpaces turns a JSON name such as too_few_rows into words.
func withSpaces(name string) string { return strings.ReplaceAll(name, "_", " ") }

// kindName returns the words that name a kind of guarantee within a sentence.
func kindName(kind string) string {
	if kind == hypothesis.FalseAlarmRate {
		return "false-alarm rate"
	}
	return withSpaces(kind)
}

// adviceFlag returns the command-line flag that a note recommends, or "".
func adviceFlag(n evaluate.Note) string {
	switch n.Option {
	case "":
		return ""
	case "groups": // the advice is to fit again
		return "attach fit --groups NAME"
	}
	return strings.TrimSpace("--" + strings.ReplaceAll(n.Option, "_", "-") + " " + n.Value)
}

// rateAt returns the rate whose nominal rate is alpha, or nil.
func rateAt(list []evaluate.Rate, alpha float64) *evaluate.Rate {
	for i, r := range list {
		if r.Nominal == alpha {
			return &list[i]
		}
	}
	return nil
}

// coverageAt returns the coverage at a level, or nil.
func coverageAt(list []evaluate.Coverage, level float64) *evaluate.Rate {
	return rateAt(mapSlice(list, func(c evaluate.Coverage) evaluate.Rate { return c.Rate }), level)
}

// orNaN returns the number that x points to, or NaN if x is nil.
func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// formatOptional formats the number that x points to, or a dash if x is nil.
func formatOptional(x *float64) string {
	if x == nil {
		return "–"
	}
	return formatFourDigits(*x)
}

// TargetName returns the name of a target, or "target" and its number if it has none.
func TargetName(e *evaluate.Evaluation, i int) string {
	return cmp.Or(e.Targets[i].Name, fmt.Sprintf("target %d", i))
}

func nominalRate(r evaluate.Rate) float64 { return r.Nominal }

// withNominal returns copies of the rates with the given nominal rate. 0 means that there
// is no nominal rate.
func withNominal(list []evaluate.Rate, nominal float64) []evaluate.Rate {
	return mapSlice(list, func(r evaluate.Rate) evaluate.Rate { r.Nominal = nominal; return r })
}

// flagsBlock shows how many in-distribution and out-of-distribution rows are flagged.
func flagsBlock(e *evaluate.Evaluation) block {
	b := block{Title: "OOD flags"}
	names, all, rates := []string(nil), e.Flags.ByAlpha, e.Flags.ByAlpha
	draw := func(title, name string, h evaluate.Histogram, n int) {
		c := countChart(title, "p-value", h)
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
	g.addText("rows", names)
	g.addNumbers("alpha", "the guaranteed false-alarm rate", mapSlice(all, nominalRate), formatExact)
	g.addRatesAndCounts("flagged", "fraction of the rows that are flagged", rates)
	b.Tables = []grid{g}
	b.addTestResult("p-values", &e.Flags.PValues)
	if o := e.OOD; o != nil {
		b.addSentence("AUROC %.4f, FPR95 %.4f", o.AUROC, o.FPR95)
	}
	suffix := " at alpha " + formatExact(e.Alpha)
	b.addPartsTable("group", "flagged by group", suffix, "flagged", "most", withNominal(e.Flags.ByGroup, e.Alpha), "")
	if n := len(b.Tables); len(e.Flags.ByClass) > 1 {
		b.addPartsTable("class", "flagged by class", suffix, "flagged", "most", withNominal(e.Flags.ByClass, e.Alpha), "")
		b.Tables[n].PageOnly = true
	}
	return b
}

// formatExact formats a number with all its digits.
func formatExact(x float64) string { return fmt.Sprint(x) }

// addSentence adds a sentence below the last table.
func (b *block) addSentence(format string, args ...any) {
	if len(b.Tables) == 0 {
		b.Tables = []grid{{}}
	}
	last := &b.Tables[len(b.Tables)-1]
	last.Below = append(last.Below, fmt.Sprintf(format, args...))
}

// addTestResult adds the result of a test: do the p-values or PIT values have the same
// distribution as those of the calibration rows?
func (b *block) addTestResult(what string, h *evaluate.Histogram) {
	if h == nil || h.KSStatistic == nil || h.KSPValue == nil {
		return
	}
	verdict := "no evidence that these rows differ from the calibration rows"
	if *h.KSPValue <= hypothesis.Unlikely {
		verdict = "these rows differ from the calibration rows"
	}
	b.addSentence("%s: p = %s (Kolmogorov–Smirnov, distance %s): %s", what, display.Number(*h.KSPValue, 2), display.Fixed(*h.KSStatistic, 3), verdict)
}

// addRatesAndCounts adds a column of rates, and a column with the number of rows of each
// rate.
func (g *grid) addRatesAndCounts(name, title string, list []evaluate.Rate) {
	g.addRates(name, title, list)
	g.addNumbers("rows", "", mapSlice(list, func(r evaluate.Rate) float64 { return float64(r.Rows) }), formatWhole)
}

// addWidths adds a column with the mean widths of intervals, or the mean sizes of prediction
// sets.
func (g *grid) addWidths(name string, list []evaluate.Rate) {
	g.addNumbers(name, "", mapSlice(list, func(r evaluate.Rate) float64 { return orNaN(r.MeanWidth) }), formatFourDigits)
}

// addPartsTable adds a table of rates by class, group or decile if there are at least two
// rates. The table has a column of widths unless width is empty. A page adds suffix to the
// title. worstEnd is "most" or "least", as in rankRows. It is empty for deciles, because they
// keep their order.
func (b *block) addPartsTable(part, title, suffix, rate, worstEnd string, list []evaluate.Rate, width string) {
	if len(list) < 2 {
		return
	}
	g := grid{Title: capitalise(title) + suffix, Name: title}
	g.addText(part, mapSlice(list, func(r evaluate.Rate) string { return r.Name }))
	g.addRatesAndCounts(rate, "fraction of the rows of each "+part, list)
	if width != "" {
		g.addWidths(width, list)
	}
	if worstEnd != "" {
		g.rankRows(worstEnd, list)
	}
	b.Tables = append(b.Tables, g)
}

// predictionsBlock shows the accuracy and the confidence of a classifier.
func predictionsBlock(c *evaluate.Classifier) block {
	b := block{Title: "Accuracy and confidence", Charts: []chart{reliabilityChart(c), riskCoverageChart(c)}}
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
	accuracy.addText("rows", names)
	accuracy.addRatesAndCounts("accuracy", "fraction of the predictions that are right", list)
	names, reliabilities := []string{"uncalibrated"}, []evaluate.Reliability{c.Uncalibrated}
	if c.Calibrated != nil {
		names, reliabilities = append(names, "temperature "+display.Number(c.Temperature, 3)), append(reliabilities, *c.Calibrated)
	}
	confidence.addText("confidence", names)
	confidence.addNumbers("NLL", "mean negative log-likelihood of the labels", mapSlice(reliabilities, func(r evaluate.Reliability) float64 { return orNaN(r.NLL) }), formatFourDigits)
	confidence.addNumbers("ECE", "expected calibration error", mapSlice(reliabilities, func(r evaluate.Reliability) float64 { return r.ECE }), func(x float64) string { return display.Fixed(x, 4) })
	b.Tables = []grid{accuracy, confidence}
	suffix := ""
	if c.AURCOODScore != nil {
		suffix = ", " + formatFourDigits(*c.AURCOODScore) + " by OOD score"
	}
	b.addSentence("AURC %s by confidence%s", formatFourDigits(c.AURC), suffix)
	b.addPartsTable("class", "accuracy by class", "", "accuracy", "least", c.ByClass, "")
	b.addPartsTable("group", "accuracy by group", "", "accuracy", "least", c.ByGroup, "")
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

// setsBlock shows the coverage and the size of prediction sets.
func setsBlock(e *evaluate.Evaluation) block {
	c := e.Classifier
	b := block{Title: strings.TrimSuffix("Prediction sets, "+c.SetScore, ", ")}
	if i := slices.IndexFunc(c.Sets, func(s evaluate.Coverage) bool { return s.Nominal == e.Level && len(s.SizeCounts) > 0 }); i >= 0 {
		b.Charts = append(b.Charts, setSizeChart(c.Sets[i]))
	}
	name := "sets, " + c.SetScore
	if c.SetsBy != "" {
		name += " by " + c.SetsBy
	}
	b.addCoverage(name, e, c.Sets)
	b.addConditional(e, hypothesis.SetCoverage, 0)
	return b
}

// targetBlock shows the intervals of one target of a regressor.
func targetBlock(e *evaluate.Evaluation, i int) block {
	t := e.Targets[i]
	name, title, prefix := "intervals", "Prediction intervals", ""
	if len(e.Targets) > 1 {
		name = TargetName(e, i)
		title, prefix = title+", "+name, name+": "
	}
	b := block{Title: strings.TrimSuffix(title+", "+intervalKind(e), ", ")}
	if len(t.Points) > 0 {
		b.Charts = append(b.Charts, intervalChart(t.Points, e.Level))
	}
	if t.PIT != nil {
		b.Charts = append(b.Charts, pitChart(t))
	}
	b.addCoverage(strings.TrimSuffix(name+", "+intervalKind(e), ", "), e, t.Coverage)
	b.addConditional(e, hypothesis.IntervalCoverage, i)
	if t.RMSE != nil {
		b.addSentence("%sRMSE %s, MAE %s, R² %s of the predictions; CRPS %s of the quantiles", prefix, formatOptional(t.RMSE), formatOptional(t.MAE), formatOptional(t.R2), formatOptional(t.CRPS))
	}
	b.addTestResult(prefix+"PIT", t.PITCalibrated)
	return b
}

// intervalKind returns the nonconformity score of intervals, or "bounds of ellipsoids". It is ""
// for intervals with one end.
func intervalKind(e *evaluate.Evaluation) string {
	if e.Region == conformal.Ellipsoid {
		return "bounds of ellipsoids"
	}
	return e.IntervalScore
}

// addRegions says whether boxes or ellipsoids are smaller, and how often they cover.
func (b *block) addRegions(e *evaluate.Evaluation) {
	r := e.Regions
	if r == nil {
		return
	}
	coverage := fmt.Sprintf("at level %g, ellipsoids cover %s of the rows and boxes %s", e.Level, display.Percent(r.Ellipsoid.Fraction), display.Percent(r.Box.Fraction))
	if r.VolumeRatio == nil {
		b.addSentence("%s; no row has volumes to compare", coverage)
		return
	}
	ratio, smaller, larger := *r.VolumeRatio, "ellipsoids", "boxes"
	if r.Smaller == conformal.Box {
		ratio, smaller, larger = 1/ratio, larger, smaller
	}
	b.addSentence("%s are smaller: they have %s times the volume of %s (geometric mean of %s); %s", smaller, display.Number(ratio, 2), larger, rows.Count(r.ComparedRows, "row"), coverage)
}

// addCoverage shows the coverage of intervals or prediction sets at each level. At the level
// of the evaluation, it also shows the coverage by class, group and decile.
func (b *block) addCoverage(name string, e *evaluate.Evaluation, all []evaluate.Coverage) {
	if len(all) == 0 {
		return
	}
	sets, width, median := all[0].SizeCounts != nil, "mean width", "median width"
	specialName, title, countSpecial := "infinite", "intervals with an infinite bound", func(c evaluate.Coverage) float64 { return float64(c.Infinite) }
	if sets {
		width, median = "mean size", "median size"
		specialName, title, countSpecial = "empty", "sets without a class", func(c evaluate.Coverage) float64 { return float64(c.SizeCounts[0]) }
	}
	rates := mapSlice(all, func(c evaluate.Coverage) evaluate.Rate { return c.Rate })
	g := grid{Title: "Coverage by level", Name: name}
	g.addNumbers("level", "the guaranteed coverage", mapSlice(rates, nominalRate), formatExact)
	g.addRates("coverage", "fraction of the rows that are covered", rates)
	g.addWidths(width, rates)
	g.addNumbers(median, "", mapSlice(all, func(c evaluate.Coverage) float64 { return orNaN(c.MedianWidth) }), formatFourDigits)
	if n := mapSlice(all, countSpecial); slices.Max(n) > 0 {
		g.addNumbers(specialName, title, n, formatWhole)
	}
	g.addRates("worst slab", "coverage of the slab of the feature space that is covered least", mapSlice(all, func(c evaluate.Coverage) evaluate.Rate {
		if c.WorstSlab == nil {
			return evaluate.Rate{Fraction: math.NaN()}
		}
		return *c.WorstSlab
	}))
	g.Heads[len(g.Heads)-1].Interval = false
	b.Tables = append(b.Tables, g)
	if len(all) > 1 {
		b.Charts = append(b.Charts, coverageChart(all))
	}
	for _, c := range all {
		if c.Nominal == e.Level {
			suffix := fmt.Sprintf(" at level %g", e.Level)
			b.addPartsTable("class", "coverage by class", suffix, "coverage", "least", withNominal(c.ByClass, c.Nominal), width)
			b.addPartsTable("group", "coverage by group", suffix, "coverage", "least", withNominal(c.ByGroup, c.Nominal), width)
			b.addPartsTable("prediction", "coverage by decile of the prediction", suffix, "coverage", "", withNominal(c.ByDecile, c.Nominal), width)
		}
	}
}

func formatWhole(x float64) string { return display.Fixed(x, 0) }
