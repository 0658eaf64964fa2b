package evaluate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/schema"
)

const (
	// minNoteRows is the smallest number of rows for notes about findings that chance could
	// explain in fewer rows.
	minNoteRows = 20
	// maxNamedClasses is the largest number of classes that a note names.
	maxNamedClasses = 5
	// useOtherRows is the advice for rows that were used before.
	useOtherRows = "evaluate on rows that were not used to fit or calibrate"
)

// unusualGaps returns the columns that are empty more often than in the fit rows, unless the
// schema reports them.
func (g *accumulator) unusualGaps() []attach.ColumnGaps {
	if g.o.Schema != nil {
		return nil
	}
	return attach.UnusualGaps(g.gaps.Columns())
}

// noteColumns adds a note for each input column that differs from the fit rows. If at least 1 %
// of its rows do, or if it has changed as a whole, it can explain violated guarantees.
func (g *accumulator) noteColumns(add func(advice, format string, args ...any), e *Evaluation) {
	s := g.o.Schema.Summary()
	e.Schema = &s
	notable := s.NotableColumns()
	for i, c := range notable {
		format, advice := "column %v", "check the source, the unit and the coding of the column, or fit and calibrate with rows like these"
		if c.Kind == schema.Measure {
			format, advice = "%v", "check how inputs are prepared, or fit and calibrate with rows like these"
		}
		if i < len(notable)-1 { // the same advice holds for all columns
			advice = ""
		}
		add(advice, format, c)
	}
	if slices.ContainsFunc(notable, func(c schema.ColumnSummary) bool {
		return c.Change != "" || 100*(c.NewGaps+c.NewCategories+c.OutOfRange) >= c.Rows
	}) {
		e.explain(func(Guarantee) bool { return true })
	}
}

// addNotes adds notes about data that the rows lack, and about likely mistakes in the rows or
// the .attach file.
func (g *accumulator) addNotes(e *Evaluation) {
	add := func(advice, format string, args ...any) {
		e.Notes = append(e.Notes, Note{Message: fmt.Sprintf(format, args...), Advice: advice})
	}
	g.noteUsedRows(add, e)
	if g.weighted() {
		add("", "the %s have weights and are worth %s rows with equal weights, so verdicts are approximate", rows.Count(e.CalibrationRows, "calibration row"), display.Count(int(math.Round(e.EffectiveSampleSize))))
	}
	if g.bundle.Calibration.Folds != nil && g.targets != nil {
		add("", "the intervals are cross-fitted, so their verdicts are approximate")
	}
	switch {
	case e.ErrorEstimate != nil && e.ErrorEstimate.Error != nil || g.o.Labelled != nil && e.Task == attach.Classification && g.labels == nil:
		add("give labels, so that prediction sets are tested", "the rows have no labels, so accuracy is only estimated")
	case e.Task == attach.Classification && g.labels == nil:
		add("give labels, so that prediction sets are tested", "the rows have no labels, so accuracy is unknown")
	case e.Task == attach.Classification && e.Classifier == nil:
		add("give logits to see more", "the rows have no logits, so accuracy is unknown")
	case e.Task == attach.Regression && g.targets == nil && g.o.Labelled != nil:
		add("give targets, so that intervals are tested", "the rows have no targets, so errors are only estimated")
	case e.Task == attach.Regression && g.targets == nil && g.bundle.IntervalModel == nil:
		add("give targets, so that errors are measured, or a few labelled rows, from which they are estimated", "the rows have no targets, so the errors of the model are unknown")
	case e.Task == attach.Regression && g.targets == nil:
		add("give targets, so that intervals are tested, or a few labelled rows, from which errors are estimated", "the rows have no targets, so the errors of the model and the coverage of intervals are unknown")
	}
	if e.Flags == nil {
		add("", "the .attach file has no detector: nothing is flagged")
	}
	if p := g.predictors[g.mainLevel]; p.Selective() != nil && p.Selective().Rows == 0 {
		add(fmt.Sprintf("calibrate with %s or more, or allow more errors", rows.Count(p.Selective().Least, "row")),
			"no row is accepted: %s that are not flagged have too many errors, or are too few, to guarantee at most %s errors", rows.Count(p.Selective().Of, "calibration row"), display.Percent(p.Options().MaxError))
	}
	if g.o.Schema != nil {
		g.noteColumns(add, e)
	}
	for _, gaps := range g.unusualGaps() {
		message := gaps.String()
		if !strings.HasPrefix(message, "column ") { // reports write the first letter of a message as a capital, which would change the name of a column
			message = "column " + message
		}
		add("fill the empty cells, or calibrate with rows that have them too", "%s", message)
		if 100*gaps.Empty >= gaps.Rows { // fewer rows with empty cells cannot explain a violated guarantee
			e.explain(func(Guarantee) bool { return true })
		}
	}
	if g.n < minNoteRows {
		return
	}
	if n := g.countCalibrationScores(); 10*n > g.n && g.used[1].Rows < g.n {
		add(useOtherRows, "%s of %s have the scores of calibration rows: they seem to be the same rows, which show nothing about new rows", display.Count(n), rows.Count(g.n, "row"))
		e.withholdMet(n, g.n)
	}
	if o := e.OOD; o != nil && o.Rows >= minNoteRows {
		n, m := float64(g.n), float64(o.Rows)
		chance := distuv.UnitNormal.Quantile(1-significance) * math.Sqrt((n+m+1)/(12*n*m)) // critical value of the rank-sum test
		if o.AUROC < .5-max(chance, .05) {
			add("check whether the two are swapped, or prepared differently",
				"out-of-distribution rows score lower than the %s evaluated on: AUROC is %s, below 0.5", rows.Count(g.n, "row"), display.Number(o.AUROC, 3))
			e.explain(func(Guarantee) bool { return true })
		}
	}
	if e.Flags != nil {
		for _, r := range e.Flags.ByAlpha {
			if r.Nominal == e.Alpha && r.Fraction >= max(.9, 2*e.Alpha) && g.bundle.Calibration.Reused == 0 {
				add("check that inputs are prepared, sized and scaled as for the fit, and that the model is the same",
					"%s of %s are flagged: almost no row looks like the calibration rows", display.Count(r.Count), rows.Count(r.Rows, "row"))
				e.explain(func(Guarantee) bool { return true })
			}
		}
	}
	if e.Classifier != nil {
		if g.noteLabels(add, e.Classifier) {
			g.noteTemperature(add, e.Classifier)
		} else {
			e.explain(func(p Guarantee) bool { return p.Kind != hypothesis.FalseAlarmRate })
		}
	}
	for t := range e.Targets {
		if g.targets[t].note(add, e.targetPrefix(t), e.Targets[t]) {
			e.explain(func(p Guarantee) bool {
				return p.Kind == hypothesis.JointCoverage || p.Kind == hypothesis.IntervalCoverage && p.Target == t
			})
		}
	}
}

// targetPrefix returns the beginning of a message that names the target, or "" if there is
// only one target.
func (e *Evaluation) targetPrefix(t int) string {
	if len(e.Targets) < 2 {
		return ""
	}
	return cmp.Or(e.Targets[t].Name, fmt.Sprintf("target %d", t)) + ": "
}

// noteUsedRows adds notes about calibration rows that are also fit rows, and about evaluated
// rows that are also fit rows or calibration rows.
func (g *accumulator) noteUsedRows(add func(advice, format string, args ...any), e *Evaluation) {
	c := &g.bundle.Calibration
	all := func(Guarantee) bool { return true }
	if c.Reused > 0 {
		add("fit again, with calibration rows that were not used to fit", "%s", rowhash.ReusedNote(c.Reused, c.NCal))
		e.explain(all)
	}
	for i, used := range []string{"fitted", "calibrated"} {
		message := g.used[i].Says("row")
		if message == "" || g.used[i].Rows < g.n {
			continue
		}
		add(useOtherRows, "%s were %s on: they do not show what happens with other rows", message, used)
		e.explain(all)
		e.withholdMet(g.used[i].Known(), g.n)
	}
}

// withholdMet replaces the verdict of guarantees that are met by "too few rows" if at least
// half of the n rows were used before. The guarantees are met on such rows by construction.
func (e *Evaluation) withholdMet(used, n int) {
	if 2*used < n {
		return
	}
	for i := range e.Guarantees {
		if p := &e.Guarantees[i]; p.Verdict == hypothesis.Met {
			p.Verdict, p.Advice = hypothesis.TooFewRows, useOtherRows
			p.Message += "; these rows cannot tell, because they were used before"
		}
	}
}

// explain replaces the advice of violated guarantees by the advice of the last note, which
// names the cause. Only guarantees that match, and that no earlier note explains, are
// changed.
func (e *Evaluation) explain(matches func(Guarantee) bool) {
	for i, p := range e.Guarantees {
		if p.Verdict == hypothesis.Violated && !p.ExplainedByNote && matches(p) {
			e.Guarantees[i].ExplainedByNote, e.Guarantees[i].Advice = true, "first "+e.Notes[len(e.Notes)-1].Advice+" (see the note), then evaluate again"
		}
	}
}

// countCalibrationScores returns the number of rows whose score equals that of a
// calibration row up to rounding. Two scores count as equal if they differ by less than a
// thousandth of the distance to the neighbouring calibration scores. The score of a row
// varies a little with the size of its block, because the model then rounds differently. If
// many calibration rows have equal scores, the function returns 0.
func (g *accumulator) countCalibrationScores() int {
	all := slices.Sorted(slices.Values(g.bundle.Calibration.OOD))
	sorted := slices.Compact(slices.Clone(all))
	if 50*len(sorted) < 49*len(all) { // scores cannot identify rows if many calibration rows have equal scores
		return 0
	}
	n := 0
	for _, s := range g.scores {
		k, _ := slices.BinarySearch(sorted, s)
		for i := max(k-1, 1); i <= min(k, len(sorted)-2); i++ {
			if math.Abs(s-sorted[i]) <= 1e-3*min(s-sorted[i-1], sorted[i+1]-s) {
				n++
				break
			}
		}
	}
	return n
}

// noteTemperature adds a note if temperature scaling increases the NLL of the rows
// significantly, by a paired test.
func (g *accumulator) noteTemperature(add func(advice, format string, args ...any), c *Classifier) {
	if c.Uncalibrated.NLL == nil || c.Calibrated == nil {
		return
	}
	increase := slices.Clone(g.classes.nll[1])
	floats.Sub(increase, g.classes.nll[0])
	mean, deviation := stat.MeanStdDev(increase, nil)
	if mean <= distuv.UnitNormal.Quantile(1-significance)*stat.StdErr(deviation, float64(len(increase))) {
		return
	}
	advice := "calibrate with rows from the same source as these"
	if g.bundle.Calibration.HeldOut == rows.SplitOff {
		advice = "calibrate with rows that the model was not trained on"
	}
	nll := formatDistinct([]float64{*c.Uncalibrated.NLL, *c.Calibrated.NLL})
	add(advice, "temperature scaling (%s) makes confidence worse on these rows, by more than chance: NLL is %s instead of %s",
		display.Number(c.Temperature, 3), nll[1], nll[0])
}

// noteLabels adds a note if labels do not match the predictions, or if accuracy is lower
// than on the calibration rows. It reports whether labels seem to match. For more than 2,000
// classes, it does not compare them and returns true.
func (g *accumulator) noteLabels(add func(advice, format string, args ...any), c *Classifier) (match bool) {
	n := max(slices.Max(g.labels), slices.Max(g.classes.top)) + 1
	if n > 2000 {
		return true
	}
	counts, labelled := make([]int, n*n), make([]bool, n) // counts[label*n+p] is the number of rows with this label and the prediction p
	for i, label := range g.labels {
		top := g.classes.top[i]
		counts[label*n+top]++
		labelled[label] = true
	}
	_, chance := hypothesis.Agreement(g.classes.top, g.labels)
	agreed, permutations := 0, []string(nil)
	mostFrequent, alreadyPredicted := make([]int, n), make([]bool, n)
	distinct := true // whether no two labels have the same most frequent prediction
	for label := range n {
		if !labelled[label] {
			continue
		}
		row := counts[label*n : (label+1)*n]
		mostFrequent[label] = slices.Index(row, slices.Max(row))
		agreed += row[mostFrequent[label]]
		distinct = distinct && !alreadyPredicted[mostFrequent[label]]
		alreadyPredicted[mostFrequent[label]] = true
		if mostFrequent[label] != label {
			permutations = append(permutations, fmt.Sprintf("%s for %s", g.className(mostFrequent[label]), g.className(label)))
		}
	}
	permutedAccuracy := rate(agreed, len(g.labels))
	switch {
	case distinct && permutations != nil && permutedAccuracy.Low > c.Accuracy.High+.05:
		add("number the labels in the order of the model's outputs",
			"the labels look permuted: the model mostly predicts %s; with that numbering, accuracy would be %s", display.List(permutations, maxNamedClasses), display.Percent(permutedAccuracy.Fraction))
		return false
	case chance < .9 && c.Accuracy.Low <= chance:
		add("check that the labels belong to these rows, in this order, and how inputs are prepared",
			"accuracy is %s, no better than %s with the predictions for other rows", display.Percent(c.Accuracy.Fraction), display.Percent(chance))
		return false
	case c.CalibrationAccuracy != nil && c.Accuracy.High < c.CalibrationAccuracy.Low:
		message, advice := "accuracy is lower than on the calibration rows (%s): these rows are harder, or from another source", "check what changed"
		if g.bundle.Calibration.HeldOut == rows.SplitOff {
			message = "accuracy is lower than on the calibration rows (%s), which were split off the rows fitted on: the model was trained on them, or these rows are harder or prepared differently"
			advice = "check how inputs are prepared, and calibrate with rows that the model was not trained on"
		}
		add(advice, message, display.Percent(c.CalibrationAccuracy.Fraction))
	}
	return true
}

// note adds a note if targets do not match the predictions. It reports whether it did.
func (c *target) note(add func(advice, format string, args ...any), name string, e Target) bool {
	if e.R2 == nil || *e.R2 > 0 {
		return false
	}
	offset, slope := stat.LinearRegression(c.value, c.truth, nil, false)
	explained := stat.RSquared(c.value, c.truth, nil, offset, slope)
	if explained > .3 {
		add("give targets in the units that the model was trained on", "%sthe model predicts worse than the mean of the targets would (R² %s), and targets are about %s times its predictions plus %s (R² %s): they seem to be in other units",
			name, display.Number(*e.R2, 3), display.Number(slope, 3), display.Number(offset, 3), display.Number(explained, 3))
		return true
	}
	add("check that the targets belong to these rows, in this order, and how inputs are prepared", "%sthe model predicts worse than the mean of the targets would: R² is %s", name, display.Number(*e.R2, 3))
	return true
}
