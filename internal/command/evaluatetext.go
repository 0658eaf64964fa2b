package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/report"
)

// printEvaluation prints an evaluation for people: promises, then figures.
func printEvaluation(to io.Writer, e *evaluate.Evaluation) error {
	w := new(strings.Builder)
	printf(w, "%s, %s\n", rows.Count(e.Rows, "row"), rows.Count(e.NCal, "calibration row"))
	if value, label := report.Headline(e); value != "" {
		printf(w, "%s %s\n", value, label)
	}
	printPromises(w, e)
	printNotes(w, e.Notes)
	t := figureTables{w}
	if f := e.Flags; f != nil {
		rows := [][]string{{"flagged", "asked", "share", "95 % interval", "rows"}}
		add := func(name string, at []evaluate.Rate) {
			for _, r := range at {
				rows = append(rows, slices.Insert(cellsOfRate(name, r), 1, fmt.Sprint(r.Asked)))
			}
		}
		add("in-domain", f.At)
		if e.Others != nil {
			add("from elsewhere", e.Others.At)
		}
		t.print(rows)
		t.unlike("p-values", &f.PValues)
		if o := e.Others; o != nil {
			t.line("AUROC %.4f, FPR95 %.4f", o.AUROC, o.FPR95)
		}
		t.parts("flagged at "+fmt.Sprint(e.Alpha), "most", f.ByGroup, "")
	}
	if c := e.Classes; c != nil {
		t.classes(e, c)
	}
	for i, target := range e.Targets {
		t.target(e, i, target)
	}
	t.coverage("all targets at once, "+e.IntervalScore, e, e.Joint)
	_, err := io.WriteString(to, w.String())
	return err
}

// printPromises prints a sentence for each promise, and what to do once, for those
// that are broken first. Those of groups that are kept, or many, are counted.
func printPromises(w io.Writer, e *evaluate.Evaluation) {
	type tally struct {
		verdict    string
		kind, part string
	}
	counted, made := map[tally]int{}, map[string]int{}
	said := map[string]int{hypothesis.Broken: mostNamed, hypothesis.TooFewRows: mostNamed}
	var tallies []tally
	todo, explained := map[string][]string{}, 0
	for _, p := range e.Promises {
		name := strings.ReplaceAll(p.Kind, "_", " ")
		if len(e.Targets) > 1 && p.Kind == hypothesis.Coverage {
			name += " of " + targetName(e, p.Target)
		}
		if p.Name != "" {
			kind := fmt.Sprintf("%s at %g", name, p.Asked)
			made[kind]++
			one := tally{p.Verdict, kind, p.Part}
			if counted[one] == 0 {
				tallies = append(tallies, one)
			}
			if counted[one]++; counted[one] > said[p.Verdict] {
				continue
			}
			name += " of " + p.Part + " " + p.Name
		}
		says := p.Says
		if p.Verdict == hypothesis.TooFewRows {
			says = advice(p.Says, p.Do)
		} else if p.Do != "" && !slices.Contains(todo[p.Verdict], p.Do) {
			at := len(todo[p.Verdict])
			if p.Explained {
				at, explained = explained, explained+1
			}
			todo[p.Verdict] = slices.Insert(todo[p.Verdict], at, p.Do)
		}
		printf(w, "%-12s  %s: %s\n", p.Verdict, name, says)
	}
	for _, one := range tallies {
		more := ""
		if said[one.verdict] > 0 {
			more = " more"
		}
		if n := counted[one] - said[one.verdict]; n > 0 {
			printf(w, "%-12s  %s, in %d%s of %s\n", one.verdict, one.kind, n, more, rows.Count(made[one.kind], one.part))
		}
	}
	for _, do := range append(todo[hypothesis.Broken], todo[hypothesis.Kept]...) {
		if strings.HasPrefix(do, "calibrate with ") {
			do += " (attach fit --cal)"
		}
		printf(w, "%-12s  %s\n", "what to do", do)
	}
}

// printNotes prints limits of guarantees in the column of their verdicts, then other
// notes.
func printNotes(w io.Writer, notes []evaluate.Note) {
	var others []string
	for _, n := range notes {
		says := advice(n.Says, n.Do)
		if flag := report.Flag(n); flag != "" {
			says += " (" + flag + ")"
		}
		if n.Part == "" {
			others = append(others, says)
			continue
		}
		printf(w, "%-12s  %s\n", "limit", says)
	}
	for _, says := range others {
		printf(w, "note: %s\n", says)
	}
}

// mostNamed is how many promises of one verdict and kind, each of a group or class,
// are sentences.
const mostNamed = 10

// advice is what is so and what to do.
func advice(says, do string) string {
	if do == "" {
		return says
	}
	return says + "; " + do
}

func interval(r evaluate.Rate) string { return display.Range(r.Low, r.High) }

// cellsOfRate are a share of rows with its interval.
func cellsOfRate(name string, r evaluate.Rate) []string {
	return []string{name, display.Percent(r.Share), interval(r), display.Count(r.Rows)}
}

// figureTables prints tables with empty lines between.
type figureTables struct{ w io.Writer }

func (t figureTables) print(rows [][]string) {
	if len(rows) > 1 {
		fmt.Fprintln(t.w)
		printRows(t.w, rows)
	}
}

func (t figureTables) line(format string, args ...any) { printf(t.w, format+"\n", args...) }

// unlike says how far numbers are from those of the calibration rows.
func (t figureTables) unlike(what string, h *evaluate.Histogram) {
	if h != nil && h.Probability != nil {
		t.line("%s differ from those of the calibration rows by %s at most; %s is how likely that is by chance", what, display.Fixed(*h.Distance, 3), display.Number(*h.Probability, 3))
	}
}

// mostParts is how many classes or groups are printed, the worst of them.
const mostParts = 20

// parts prints shares by class, group or tenth, of which the most or the least are
// the worst.
func (t figureTables) parts(head, worst string, parts []evaluate.Rate, width string) {
	if len(parts) < 2 {
		return
	}
	if n := len(parts); n > mostParts {
		parts = slices.SortedStableFunc(slices.Values(parts), byShare)
		if worst == "most" {
			slices.Reverse(parts)
		}
		parts = parts[:mostParts]
		head = fmt.Sprintf("%s, %s %d of %d", head, worst, mostParts, n)
	}
	rows := [][]string{{head, "share", "95 % interval", "rows"}}
	if width != "" {
		rows[0] = append(rows[0], width)
	}
	for _, r := range parts {
		row := cellsOfRate(r.Name, r)
		if width != "" {
			row = append(row, optional(r.Width))
		}
		rows = append(rows, row)
	}
	t.print(rows)
}

// byShare orders by shares, the least first.
func byShare(a, b evaluate.Rate) int { return cmp.Compare(a.Share, b.Share) }

func optional(x *float64) string {
	if x == nil {
		return "–"
	}
	return display.Number(*x, 4)
}

func (t figureTables) classes(e *evaluate.Evaluation, c *evaluate.Classes) {
	rows := [][]string{{"accuracy", "share", "95 % interval", "rows"}}
	for _, one := range []struct {
		name string
		r    *evaluate.Rate
	}{{"all", c.Accuracy}, {"flagged", c.Flagged}, {"not flagged", c.Unflagged}, {"accepted", correct(c.Errors)}} {
		if one.r != nil {
			rows = append(rows, cellsOfRate(one.name, *one.r))
		}
	}
	t.print(rows)
	rows = [][]string{{"confidence", "NLL", "ECE"}, {"of the network", optional(c.Before.NLL), display.Fixed(c.Before.ECE, 4)}}
	if c.After != nil {
		rows = append(rows, []string{"at temperature " + display.Number(c.Temperature, 3), optional(c.After.NLL), display.Fixed(c.After.ECE, 4)})
	}
	t.print(rows)
	t.line("AURC %s by confidence, %s by score", optional(&c.AURC), optional(c.AURCScore))
	t.parts("accuracy by class", "least", c.ByClass, "")
	t.parts("accuracy by group", "least", c.ByGroup, "")
	name := "sets, " + string(c.SetScore)
	if c.SetParts != "" {
		name += " by " + c.SetParts
	}
	t.coverage(name, e, c.Sets)
}

// correct are the rows that are not errors.
func correct(errors *evaluate.Rate) *evaluate.Rate {
	if errors == nil {
		return nil
	}
	return &evaluate.Rate{Rows: errors.Rows, Share: 1 - errors.Share, Low: 1 - errors.High, High: 1 - errors.Low}
}

func (t figureTables) target(e *evaluate.Evaluation, i int, one evaluate.Target) {
	name := "intervals"
	if len(e.Targets) > 1 {
		name = targetName(e, i)
	}
	t.coverage(name+", "+e.IntervalScore, e, one.Coverage)
	if one.RMSE != nil {
		t.line("%s: RMSE %s, MAE %s, R² %s of the network's own prediction; CRPS %s of the head's", name, optional(one.RMSE), optional(one.MAE), optional(one.R2), optional(one.CRPS))
	}
	t.unlike("levels of the targets", one.PITCalibrated)
}

// targetName is a target's name or else its number.
func targetName(e *evaluate.Evaluation, i int) string {
	return cmp.Or(e.Targets[i].Name, fmt.Sprintf("target %d", i))
}

// coverage prints intervals or sets by level, and those of the evaluation's own by
// what rows are divided by.
func (t figureTables) coverage(name string, e *evaluate.Evaluation, all []evaluate.Coverage) {
	if len(all) == 0 {
		return
	}
	sets, width, ends := all[0].Sizes != nil, "mean width", "endless"
	if sets {
		width, ends = "mean size", "empty"
	}
	rows := [][]string{{name, "level", "covered", "95 % interval", width, "median", ends, "worst slab"}}
	for _, c := range all {
		slab, n := "–", c.Endless
		if c.Slab != nil {
			slab = display.Percent(c.Slab.Share)
		}
		if sets {
			n = c.Sizes[0]
		}
		rows = append(rows, []string{"", fmt.Sprint(c.Asked), display.Percent(c.Share), interval(c.Rate), optional(c.Width), optional(c.Median), display.Count(n), slab})
	}
	if sets && !slices.ContainsFunc(all, func(c evaluate.Coverage) bool { return c.Sizes[0] > 0 }) {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 6, 7)
		}
	}
	t.print(rows)
	for _, c := range all {
		if c.Asked == e.Level {
			t.parts("covered, by class", "least", c.ByClass, width)
			t.parts("covered, by group", "least", c.ByGroup, width)
			t.parts("covered, by prediction", "least", c.ByTenth, width)
		}
	}
}
