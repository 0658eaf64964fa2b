package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// auditFlags holds the flags of attach audit.
type auditFlags struct {
	bundleFlags
	finishedFlags
	engineOptions engine.Options // the flags that are in neither of both
}

// inputList holds the values of a flag that may be repeated and names inputs.
type inputList []string

func (l *inputList) add(value string) error {
	*l = append(*l, value)
	return nil
}

func (l *inputList) paths() []string { return *l }

// Pipeline scores an audit in other processes.
type Pipeline interface {
	engine.Storage
	engine.Remote
}

// auditCommand returns the command attach audit. If pipeline is nil, this process scores
// the audit.
func auditCommand(pipeline Pipeline) *cli.Command {
	f := &auditFlags{}
	f.flags()
	return f.table.command(cli.Command{
		Name:      "audit",
		Usage:     "find out-of-distribution inputs in a large data set",
		UsageText: "attach audit M.attach --x INPUTS -o DIR [--fdr 0.1]\nattach audit DIR [--fdr 0.2] [--list clean] [-o FILE]",
		Description: "Scores every input and writes scores.parquet (a row each), duplicates.parquet (copies), audit.json (how many inputs do not belong, with guarantees) and report.html to DIR. Discoveries are the inputs called outliers: on average, at most the fraction --fdr of them is false.\n\n" +
			"Memory hardly grows with the number of inputs. After an interruption, the same command continues. `attach audit DIR` answers from a finished audit, without the model and the inputs. `attach merge` combines audits of several machines. docs/guides/audit.md explains the guarantees, and docs/reference/json.md the keys of audit.json.",
		CustomHelpTemplate: `# which of these inputs are no digits?
attach audit digits_resnet.attach --x digits_test.npz --x letters.npz -o audit
# fail a CI job if outliers are proven
attach audit digits_resnet.attach --x digits_test.npz -o nightly --fail-if 'outliers_lower_bound>0'
# later: another rate, and the names of inputs without discoveries
attach audit audit --fdr 0.2 --list clean -o clean.txt`,
	}, argument{name: "M.attach or DIR", dest: &f.path}, f.parseGates, f.table.pick("report").checkWritable, func(c *cli.Context) error {
		if f.isFinished() {
			return f.answer(c, []string{f.path})
		}
		return f.run(c, pipeline)
	})
}

// flags sets the table of flags.
func (f *auditFlags) flags() {
	f.rates = audit.Identity{FDR: .1, Delta: .05}
	features, model := f.bundleOptions()
	features = slices.DeleteFunc(features, func(o *option) bool { return o.name == "rows" })
	noIntervals := bundleConflict("needs intervals, and M.attach has none", func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 0 })
	asFeatures := noEffect("with --from-features", func() bool { return f.asFeatures })
	withoutModel := bundleConflict("has no effect because M.attach was fitted on features, without a model; leave it out", func(b *attach.Bundle) bool { return b.Base.SHA256 == "" })
	skip := model.find("skip-bad")
	skip.usage, skip.conflicts = "leave out images that cannot be read and files that are broken or empty, and report them, instead of stopping", nil
	finished := conflict{when: f.isFinished, reason: "needs a .attach file as the first argument, not a folder"}
	unfinished := conflict{when: func() bool { return !f.isFinished() }, reason: "needs the folder of a finished audit, not a .attach file"}
	scoring := join(table{
		{name: "x", dest: (*inputList)(&f.engineOptions.Inputs), required: true, unless: f.isFinished, file: rowFile, usage: "INPUTS: what to audit (see `attach help inputs`), a folder of such files, a pattern such as 'day-*.parquet', or @FILE with a name per line; may be repeated; required with M.attach"},
		{name: "fitted", dest: (*inputList)(&f.engineOptions.Fitted), file: rowFile, usage: "INPUTS: rows of the fit; scores.parquet then names those nearly equal to an input, and the report the nearest one of the highest scores; may be repeated"},
		{name: "every", dest: &f.engineOptions.Identity.Every, rule: atLeast(1), usage: "N: audit only every N-th row of each file or folder"},
		{name: "limit", dest: &f.engineOptions.Identity.Limit, rule: atLeast(1), usage: "N: audit at most N rows of each file or folder"},
		{name: "explain", dest: &f.engineOptions.Explain, usage: "say which columns, regions of images or words raised the highest scores, at most 200; takes about 6 to 560 predictions for each; images need --fitted, and URLs are left out", conflicts: []conflict{asFeatures, withoutModel}},
	}.inGroup(groupData), features, table{
		{name: "level", dest: &f.engineOptions.Identity.Level, rule: fraction, usage: "PROBABILITY: coverage of intervals (default: the one of fit)", conflicts: []conflict{noIntervals}},
		{name: "label-errors", dest: &f.engineOptions.Identity.LabelErrorsBy, choices: audit.LabelErrorChoices(), usage: "BY: find wrong labels, or wrong targets of a regressor; each is compared with all calibration rows (all), those of its class (class), or those of classes with similar scores (cluster)", conflicts: []conflict{
			bundleConflict("cannot be class or cluster, because M.attach is a regressor; use all", func(b *attach.Bundle) bool {
				return b.Base.Task == attach.Regression && f.engineOptions.Identity.LabelErrorsBy != "all"
			})}},
	}.inGroup(groupGuarantee), f.groupsOption(", to count discoveries by group"), model)
	verbose := scoring.pick("verbose")
	scoring = slices.DeleteFunc(scoring, func(o *option) bool { return o.name == "verbose" }).withConflicts(finished)
	rates := f.rateOptions()
	rates.pick("label-noise").withConflicts(noEffect("without --label-errors", func() bool { return !f.isFinished() && f.engineOptions.Identity.LabelErrorsBy == "" }))
	f.table = join(scoring, rates, table{
		{name: "o", dest: &f.out, required: true, unless: f.isFinished, usage: "DIR: new or empty folder to write to, required with M.attach; an unfinished audit in it is continued. With a finished audit: a folder for the new results, which may be its own, or FILE of --list"},
		{name: "file-rows", dest: &f.engineOptions.FileRows, rule: atLeast(1), usage: "N: largest number of rows of a file of scores; more rows become a folder of files, which other programs read in parallel (default: 8388608)", conflicts: []conflict{finished}},
		f.failIfOption(),
	}.inGroup(groupOutput), f.listOptions(unfinished), verbose)
}

// isFinished reports whether the argument must be the folder of a finished audit. A name that
// leads nowhere is taken for a folder if no inputs are given.
func (f *auditFlags) isFinished() bool {
	st, err := os.Stat(f.path)
	if err != nil {
		return f.engineOptions.Inputs == nil && !strings.EqualFold(filepath.Ext(f.path), ".attach")
	}
	return st.IsDir()
}

// auditOptions returns the options of the audit engine.
func (f *auditFlags) auditOptions() engine.Options {
	o := f.engineOptions
	o.Options, o.Run, o.Verbose, o.Dir = f.options(), f.modelFlags.Options, f.verbose, f.out
	o.Identity = o.Identity.WithResultOptions(f.rates)
	return o
}

func (f *auditFlags) run(c *cli.Context, pipeline Pipeline) error {
	stderr := c.App.ErrWriter
	f.Log = logger(stderr, f.verbose)
	p := newProgress(stderr, "audit")
	defer p.end()
	say := notePrinter(stderr)
	checkBundle := func(b *attach.Bundle) error {
		if err := f.checkBundle(b); err != nil {
			return err
		}
		return cmp.Or(checkColumnGates(f.gates, b.Profile != nil && !f.asFeatures), checkLabelGates(f.gates, f.engineOptions.Identity.LabelErrorsBy != ""))
	}
	e, err := engine.Open(c.Context, f.auditOptions(), pipeline, checkBundle, func(format string, args ...any) {
		p.end()
		say(format, args...)
	})
	if err != nil {
		return err
	}
	defer e.Close()
	for _, o := range f.table {
		if f.table.usable(o.name) {
			e.Hints = append(e.Hints, o.name)
		}
	}
	e.Explaining = func(done, total int) {
		p.show(float64(done)/float64(total), fmt.Sprintf("%s explained", rows.Count(done, "input")))
	}
	a, err := e.Run(c.Context, pipeline, func(scored int, place string, fraction float64) {
		text := place
		if scored > 0 {
			text = p.rate(scored)
			if place != "" {
				text += ", " + place
			}
		}
		p.show(fraction, text)
	})
	if err != nil {
		return err
	}
	p.end()
	printAudit(c.App.Writer, a, filepath.Join(f.out, "report.html"))
	return checkAuditGates(f.gates, a)
}

// RunAudit runs attach audit with args as Run does, except that a pipeline scores the
// audit.
func RunAudit(ctx context.Context, args []string, stdout, stderr io.Writer, pipeline Pipeline) int {
	stdout, stderr = escapeOnTerminal(stdout), escapeOnTerminal(stderr)
	defer closeTerminals(stdout, stderr)
	app := newApp(nil, stdout, stderr)
	app.Commands = []*cli.Command{auditCommand(pipeline)}
	return status(ctx, run(ctx, app, append([]string{"audit"}, args...)), stderr)
}

// NewAuditWorker returns a worker of a pipeline that RunAudit has started.
func NewAuditWorker(ctx context.Context, o engine.Options, stderr io.Writer, storage engine.Storage) (*engine.Worker, error) {
	stderr = escapeOnTerminal(stderr)
	o.Run.Log = logger(stderr, o.Verbose)
	return engine.NewWorker(ctx, o, storage, notePrinter(stderr), func(err error) error {
		return addHint(err, always, func(flag string) bool { return slices.Contains(o.Hints, flag) })
	})
}

// maxPrintedPairs is the largest number of pairs of files that printAudit prints.
const maxPrintedPairs = 3

// printAudit prints the main figures of an audit, and the path of its page unless it is empty.
func printAudit(w io.Writer, a *audit.Audit, page string) {
	line := func(label, format string, args ...any) { printf(w, "%-12s  %s\n", label, fmt.Sprintf(format, args...)) }
	printf(w, "%s audited in %s, %s\n", rows.Count(a.Inputs, "input"), a.Subject(), rows.Count(a.Calibration, "calibration row"))
	for _, caution := range a.Cautions() {
		line("warning", "%s", caution)
	}
	if c := a.Copies; c != nil {
		line("copies", "%v; all figures hold whether these copies count or not", c)
		for _, pair := range c.Between[:min(len(c.Between), maxPrintedPairs)] {
			if pair.Shard != pair.Of || len(c.Between) > 1 { // else the line above says as much
				line("", "%v", pair)
			}
		}
	}
	line("outliers", "at least %s (%s of the inputs), with probability %g", display.Count(a.Outliers), display.Percent(float64(a.Outliers)/float64(max(a.Inputs, 1))), 1-a.Delta)
	if where := a.OutlierPlaces(); where != "" {
		line("", "at least %s", where)
	}
	suffix := ""
	if a.Discoveries > 0 {
		suffix = fmt.Sprintf("; at most %.3g %% of these are false, with probability %g", 100*a.FDP, 1-a.Delta)
	}
	line("discoveries", "%s at a false discovery rate of %g%s", display.Count(a.Discoveries), a.FDR, suffix)
	if a.Unnamed() {
		line("", "more outliers than discoveries: the others cannot be told, one by one, from inliers; the report lists the highest scores first")
	} else if a.TooFew() {
		line("", "%s", a.FewRows())
		line("", "what to do: calibrate with more rows, or use the bound on outliers")
	}
	shift := fmt.Sprintf("p = %.3g", a.Shift.Higher)
	if a.Shift.Higher == 0 {
		shift = "p < 1e-300"
	}
	line("shift", "%s (%s)", a.ShiftFinding(), shift)
	for k, l := range a.LabelErrors {
		name := ""
		if len(a.LabelErrors) > 1 {
			name = l.Name + ": "
		}
		if l.Labelled == 0 {
			line("labels", "%snone was checked: files have none, or labels that the model has no class for, which a note names; name their column with --target, use --folder-labels, or add an array labels or y", name)
			continue
		}
		line("labels", "%sat least %s of %s are wrong (%s), with probability %g", name, display.Count(l.Errors), display.Count(l.Labelled), display.Percent(float64(l.Errors)/float64(l.Labelled)), 1-a.Delta)
		if where := a.LabelErrorPlaces(k); where != "" {
			line("", "at least %s", where)
		}
		suffix := ""
		if l.Discoveries > 0 {
			suffix = fmt.Sprintf("; at most %.3g %% of these are right, with probability %g", 100*l.FDP, 1-a.Delta)
		}
		line("label errors", "%s%s at a false discovery rate of %g%s", name, rows.Count(l.Discoveries, "discovery"), a.FDR, suffix)
		if few := l.FewRows(); few != "" {
			line("", "%s", few)
		}
		if confusions := l.ConfusionsText(5); confusions != "" {
			line("confusions", "%s", confusions)
		}
	}
	for _, interval := range a.Intervals {
		name, suffix := "", ""
		if len(a.Intervals) > 1 {
			name = interval.Name + ": "
		}
		if interval.WithTarget > 0 {
			suffix = fmt.Sprintf("; %s of %s are within their intervals (level %s)", display.Percent(interval.CoveredFraction()), rows.Count(interval.WithTarget, "target"), display.GivenPercent(a.Level))
		}
		line("intervals", "%s%s unusually wide%s", name, display.Count(interval.Wide), suffix)
	}
	if a.FitDuplicates != nil {
		line("fit rows", "%s near a row of --fitted", rows.Count(*a.FitDuplicates, "input"))
	}
	if s := a.Schema; s != nil && s.Unusual > 0 {
		line("values", "%s of %s have unusual values; at most about %s are expected if all are in-distribution", display.Count(s.Unusual), rows.Count(s.Rows, "input"), display.Number(s.Expected, 2))
	}
	columns, more := a.NotableColumns()
	for _, c := range columns {
		line("column", "%s", a.ColumnText(c))
	}
	if more > 0 {
		line("", "%s more differ from the rows of the fit; see schema in audit.json", rows.Count(more, "column"))
	}
	if page != "" {
		printf(w, "%s\n", page)
	}
}
