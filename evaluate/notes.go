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
)

const (
	// fewNoted is how many rows are too few to tell anything odd from chance.
	fewNoted = 20
	// mostNoted is how many classes a note names.
	mostNoted = 5
)

// note says what is missing and what looks wrong with rows or bundle.
func (g *accumulator) addNotes(e *Evaluation) {
	add := func(do, format string, args ...any) {
		e.Notes = append(e.Notes, Note{Message: fmt.Sprintf(format, args...), Advice: do})
	}
	g.noteKnown(add, e)
	switch {
	case e.Task == attach.Classification && g.labels == nil:
		add("give labels to see more", "the rows have no labels: whether answers are right is not known")
	case e.Task == attach.Classification && e.Classifier == nil:
		add("give logits to see more", "the rows have no logits: whether answers are right is not known")
	case e.Task == attach.Regression && g.targets == nil:
		add("give targets to see more", "the rows have no targets: whether intervals cover is not known")
	}
	if e.Flags == nil {
		add("", "the bundle has no detector: nothing is flagged")
	}
	if p := g.at[g.main]; p.Selective() != nil && p.Selective().Rows == 0 {
		add(fmt.Sprintf("calibrate with %s or more, or ask for less", rows.Count(p.Selective().Least, "row")),
			"no row is accepted: among %s that are not flagged, errors are too many, or rows too few, to be sure that at most %s are wrong", rows.Count(p.Selective().Of, "calibration row"), display.Percent(p.Options().MaxError))
	}
	for _, gaps := range attach.UnusualGaps(g.gaps.Columns()) {
		says := gaps.String()
		if !strings.HasPrefix(says, "column ") { // a page writes the first letter large, and names keep theirs
			says = "column " + says
		}
		add("fill the empty cells, or calibrate with rows that have them too", "%s", says)
		if 100*gaps.Empty >= gaps.Rows { // fewer rows do not break a guarantee
			e.explain(func(Guarantee) bool { return true })
		}
	}
	if g.n < fewNoted {
		return
	}
	if n := g.calibratedWith(); 10*n > g.n && g.known[1].Rows < g.n {
		add("evaluate on rows that nothing was fitted or calibrated on", "%s of %s score just as calibration rows do: they seem to be the same rows, which show nothing", display.Count(n), rows.Count(g.n, "row"))
	}
	if o := e.OOD; o != nil && o.Rows >= fewNoted {
		n, m := float64(g.n), float64(o.Rows)
		chance := distuv.UnitNormal.Quantile(1-significance) * math.Sqrt((n+m+1)/(12*n*m)) // of the rank-sum test
		if o.AUROC < .5-max(chance, .05) {
			add("look whether the two are swapped, or prepared in different ways",
				"rows from elsewhere score lower than the %s evaluated on: AUROC is %s, below one half", rows.Count(g.n, "row"), display.Number(o.AUROC, 3))
			e.explain(func(Guarantee) bool { return true })
		}
	}
	if e.Flags != nil {
		for _, r := range e.Flags.ByAlpha {
			if r.Nominal == e.Alpha && r.Fraction >= max(.9, 2*e.Alpha) && g.bundle.Calibration.Reused == 0 {
				add("look whether they are prepared, sized and scaled as those were, and read from the same network",
					"%s of %s are flagged: hardly one looks like the calibration rows", display.Count(r.Count), rows.Count(r.Rows, "row"))
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
		if g.targets[t].note(add, e.ofTarget(t), e.Targets[t]) {
			e.explain(func(p Guarantee) bool {
				return p.Kind == hypothesis.JointCoverage || p.Kind == hypothesis.IntervalCoverage && p.Target == t
			})
		}
	}
}

// ofTarget begins what is said of one of several targets.
func (e *Evaluation) ofTarget(t int) string {
	if len(e.Targets) < 2 {
		return ""
	}
	return cmp.Or(e.Targets[t].Name, fmt.Sprintf("target %d", t)) + ": "
}

// noteKnown reports calibration rows that were fitted on, and rows that were used before.
func (g *accumulator) noteKnown(add func(do, format string, args ...any), e *Evaluation) {
	c := &g.bundle.Calibration
	all := func(Guarantee) bool { return true }
	if c.Reused > 0 {
		add("fit again, with calibration rows that nothing was fitted on", "%s", rowhash.ReusedNote(c.Reused, c.NCal))
		e.explain(all)
	}
	for i, used := range []string{"fitted", "calibrated"} {
		says := g.known[i].Says("row")
		if says == "" || g.known[i].Rows < g.n {
			continue
		}
		add("evaluate on rows that nothing was fitted or calibrated on", "%s were %s on: they do not show what happens to other rows", says, used)
		e.explain(all)
	}
}

// blame has broken promises say what the last note does, which knows the cause.
func (e *Evaluation) explain(of func(Guarantee) bool) {
	for i, p := range e.Guarantees {
		if p.Verdict == hypothesis.Violated && !p.ExplainedByNote && of(p) {
			e.Guarantees[i].ExplainedByNote, e.Guarantees[i].Advice = true, "first "+e.Notes[len(e.Notes)-1].Advice+" (a note says why), then evaluate again"
		}
	}
}

// calibratedWith counts rows whose scores lie a thousand times closer to one of a
// calibration row than calibration rows do to each other there: the network adds
// up otherwise from block to block.
func (g *accumulator) calibratedWith() int {
	all := slices.Sorted(slices.Values(g.bundle.Calibration.OOD))
	sorted := slices.Compact(slices.Clone(all))
	if 50*len(sorted) < 49*len(all) { // others score alike, too
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

// noteTemperature says where the temperature makes confidence worse, by a paired
// test of the rows.
func (g *accumulator) noteTemperature(add func(do, format string, args ...any), c *Classifier) {
	if c.Uncalibrated.NLL == nil || c.Calibrated == nil {
		return
	}
	worse := slices.Clone(g.classes.nll[1])
	floats.Sub(worse, g.classes.nll[0])
	mean, deviation := stat.MeanStdDev(worse, nil)
	if mean <= distuv.UnitNormal.Quantile(1-significance)*stat.StdErr(deviation, float64(len(worse))) {
		return
	}
	do := "calibrate with rows like these"
	if g.bundle.Calibration.HeldOut == rows.SplitOff {
		do = "calibrate with rows that the network has not seen"
	}
	nll := written([]float64{*c.Uncalibrated.NLL, *c.Calibrated.NLL})
	add(do, "confidence at temperature %s is worse than the network's own on these rows, by more than chance: NLL is %s instead of %s",
		display.Number(c.Temperature, 3), nll[1], nll[0])
}

// noteLabels says where labels are not those of the answers, and whether they seem
// to be.
func (g *accumulator) noteLabels(add func(do, format string, args ...any), c *Classifier) (fit bool) {
	n := max(slices.Max(g.labels), slices.Max(g.classes.top)) + 1
	if n > 2000 {
		return true
	}
	counts, labelled := make([]int, n*n), make([]bool, n) // label by label
	for i, label := range g.labels {
		top := g.classes.top[i]
		counts[label*n+top]++
		labelled[label] = true
	}
	_, chance := hypothesis.Agreement(g.classes.top, g.labels)
	agreed, moved := 0, []string(nil)
	meant, taken := make([]int, n), make([]bool, n)
	alike := true // no two labels are answered alike
	for label := range n {
		if !labelled[label] {
			continue
		}
		row := counts[label*n : (label+1)*n]
		meant[label] = slices.Index(row, slices.Max(row))
		agreed += row[meant[label]]
		alike = alike && !taken[meant[label]]
		taken[meant[label]] = true
		if meant[label] != label {
			moved = append(moved, fmt.Sprintf("%s for %s", g.className(meant[label]), g.className(label)))
		}
	}
	other := rate(agreed, len(g.labels))
	switch {
	case alike && moved != nil && other.Low > c.Accuracy.High+.05:
		add("number the labels in the order of the network's outputs",
			"the labels look permuted: the network mostly answers %s; were they numbered so, accuracy would be %s", display.List(moved, mostNoted), display.Percent(other.Fraction))
		return false
	case chance < .9 && c.Accuracy.Low <= chance:
		add("look whether the labels are of these rows, in this order, and how inputs are prepared",
			"accuracy, %s, is no better than answers to other rows would have, %s", display.Percent(c.Accuracy.Fraction), display.Percent(chance))
		return false
	case c.CalibrationAccuracy != nil && c.Accuracy.High < c.CalibrationAccuracy.Low:
		says, do := "accuracy is below that on the calibration rows, %s: these rows are harder, or unlike them", "look what has changed"
		if g.bundle.Calibration.HeldOut == rows.SplitOff {
			says = "accuracy is below that on the calibration rows, %s, which were split off the rows fitted on: the network was trained on them, or these rows are harder, or prepared otherwise"
			do = "look how inputs are prepared, and calibrate with rows that it has not seen"
		}
		add(do, says, display.Percent(c.CalibrationAccuracy.Fraction))
	}
	return true
}

// note says where targets are not those of the predictions, and whether it did.
func (of *target) note(add func(do, format string, args ...any), name string, e Target) bool {
	if e.R2 == nil || *e.R2 > 0 {
		return false
	}
	offset, slope := stat.LinearRegression(of.value, of.truth, nil, false)
	explained := stat.RSquared(of.value, of.truth, nil, offset, slope)
	if explained > .3 {
		add("give targets in the units that the network was trained on", "%sthe network predicts worse than the mean of the targets would (R² %s), and targets are about %s times its predictions plus %s (R² %s): they look to be in other units",
			name, display.Number(*e.R2, 3), display.Number(slope, 3), display.Number(offset, 3), display.Number(explained, 3))
		return true
	}
	add("look whether the targets are of these rows, in this order, and how inputs are prepared", "%sthe network predicts worse than the mean of the targets would: R² is %s", name, display.Number(*e.R2, 3))
	return true
}
