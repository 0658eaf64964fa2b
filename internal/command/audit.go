package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// auditing is a call of attach audit.
type auditing struct {
	attachedFlags
	asked  engine.Options // but for what attachedFlags say
	failIf []string
	gates  []gate
}

// inputList are inputs that are named one after another.
type inputList []string

func (l *inputList) add(value string) error {
	*l = append(*l, value)
	return nil
}

func (l *inputList) paths() []string { return *l }

// Pipeline is where an audit is scored, if not in this process.
type Pipeline interface {
	engine.Storage
	engine.Remote
}

// auditCommand is of an audit that a pipeline scores, or this process if it is nil.
func auditCommand(elsewhere Pipeline) *cli.Command {
	f := &auditing{}
	f.flags()
	return f.table.command(cli.Command{
		Name:      "audit",
		Usage:     "find what does not belong in a large set of inputs",
		UsageText: "attach audit M.attach --x INPUTS -o DIR [--fdr .1]",
		Description: "Scores all inputs and writes to DIR scores.parquet, a row each; audit.json, what of them does not belong and how surely; and report.html, with the strangest shown. " +
			"Memory does not grow with the number of inputs. After an interruption the same command goes on where it was; `attach merge` makes one audit of several.\n\n" +
			"Discoveries are the inputs called outliers: at most a share --fdr of them is false, on average. Bounds hold for every threshold, folder and predicted class at once. Exact copies are counted, and each figure holds whether they are one input or several. docs/guides/audit.md says what each promises, what breaks it, and what each key of audit.json is.\n\n" +
			"Figures for --fail-if: " + listOf(auditFigures()) + ". A bound between 0 and 1 on a number of inputs is a share of all.",
	}, argument{name: "M.attach", to: &f.path}, f.choose, func(c *cli.Context) error { return f.run(c, elsewhere) })
}

// flags makes the table of flags.
func (f *auditing) flags() {
	f.asked.Identity = audit.Identity{FDR: .1, Delta: .05}
	features, model := f.attachedOptions()
	features = slices.DeleteFunc(features, func(o *option) bool { return o.name == "rows" })
	noIntervals := unfit("for heads without intervals", func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 0 })
	asFeatures := idle("with --from-features", func() bool { return f.asFeatures })
	alone := unfit("for heads that were fitted on features alone", func(b *attach.Bundle) bool { return b.Base.SHA256 == "" })
	skip := model.find("skip-bad")
	skip.usage, skip.never = "leave out images that cannot be read, and files that are broken or have no rows, and name them", nil
	f.table = join(table{
		{name: "x", to: (*inputList)(&f.asked.Inputs), needed: true, file: rowFile, usage: "INPUTS: what to audit: " + inputKinds + ", a folder of such files, a pattern such as 'day-*.parquet', or @FILE with a name a line; repeat for more"},
		{name: "o", to: &f.asked.Dir, needed: true, usage: "DIR: folder to write scores.parquet, audit.json and report.html to; what is there of the same audit is gone on from"},
		{name: "every", to: &f.asked.Identity.Every, must: atLeast(1), usage: "N: of each file or folder audit every N-th row alone", never: []never{asFeatures, alone}},
		{name: "limit", to: &f.asked.Identity.Limit, must: atLeast(1), usage: "N: of each file or folder audit so many rows at most"},
	}, f.promiseOptions(), features, table{
		{name: "fitted", to: (*inputList)(&f.asked.Fitted), file: rowFile, usage: "INPUTS: rows that were fitted on: scores.parquet then says of each input which of these has nearly the same features; repeat for more"},
		{name: "alpha", to: &f.asked.Identity.Alpha, must: share, usage: "SHARE: flag in-domain inputs one by one with at most this share by mistake, instead of what fit was given"},
		{name: "level", to: &f.asked.Identity.Level, must: share, usage: "PROBABILITY: how likely an interval is to cover the target, instead of what fit was given", never: []never{noIntervals}},
	}, f.groupsOption(", to count discoveries by"), model)
}

// promiseOptions are those that scores do not depend on.
func (f *auditing) promiseOptions() table {
	return table{
		{name: "fdr", to: &f.asked.Identity.FDR, must: share, usage: "SHARE: false discovery rate: at most this share of discoveries is false, on average"},
		{name: "delta", to: &f.asked.Identity.Delta, must: share, usage: "PROBABILITY: how likely any bound is to be wrong"},
		{name: "conditional", to: &f.asked.Identity.Conditional, usage: "promise --fdr for these very calibration rows, but for --delta, and not on average over such: fewer discoveries"},
		{name: "fail-if", to: &f.failIf, usage: "GATE: exit with status 3 if that is so, such as discoveries>0 or outliers_lower_bound>.01; repeat for more"},
	}
}

// choose is a step that reads the gates.
func (f *auditing) choose(*cli.Context) (err error) {
	f.gates, err = parseAuditGates(f.failIf)
	return err
}

// auditOptions are what the flags say.
func (f *auditing) auditOptions() engine.Options {
	o := f.asked
	o.Options, o.Run, o.Verbose = f.options(), f.place.Options, f.verbose
	return o
}

func (f *auditing) run(c *cli.Context, elsewhere Pipeline) error {
	stderr := c.App.ErrWriter
	f.Log = logger(stderr, f.verbose)
	p := newProgress(stderr, "audit")
	defer p.end()
	say := noting(stderr)
	e, err := engine.Open(c.Context, f.auditOptions(), elsewhere, f.fits, func(format string, args ...any) {
		p.end()
		say(format, args...)
	})
	if err != nil {
		return err
	}
	defer e.Close()
	for _, o := range f.table {
		if f.table.useful(o.name) {
			e.Hints = append(e.Hints, o.name)
		}
	}
	a, err := e.Run(c.Context, elsewhere, func(scored, file, files int, share float64) {
		of := ""
		if files > 1 {
			of = fmt.Sprintf(", file %d of %d", file+1, files)
		}
		p.share((float64(file)+share)/float64(files), p.rate(scored)+of)
	})
	if err != nil {
		return err
	}
	p.end()
	printAudit(c.App.Writer, a, f.asked.Dir)
	return checkAuditGates(f.gates, a)
}

// RunAudit is as Run with "audit" before args, but that a pipeline scores.
func RunAudit(ctx context.Context, args []string, stdout, stderr io.Writer, elsewhere Pipeline) int {
	stdout, stderr = onTerminal(stdout), onTerminal(stderr)
	defer closeTerminals(stdout, stderr)
	app := newApp(nil, stdout, stderr)
	app.Commands = []*cli.Command{auditCommand(elsewhere)}
	return status(ctx, run(ctx, app, append([]string{"audit"}, args...)), stderr)
}

// NewAuditWorker is a worker of a pipeline that RunAudit started.
func NewAuditWorker(ctx context.Context, o engine.Options, stderr io.Writer, storage engine.Storage) (*engine.Worker, error) {
	stderr = onTerminal(stderr)
	o.Run.Log = logger(stderr, o.Verbose)
	return engine.NewWorker(ctx, o, storage, noting(stderr), func(err error) error {
		return hinted(err, func(flag string) bool { return slices.Contains(o.Hints, flag) })
	})
}

// printAudit prints the main figures of an audit.
func printAudit(w io.Writer, a *audit.Audit, dir string) {
	line := func(label, format string, args ...any) { printf(w, "%-12s  %s\n", label, fmt.Sprintf(format, args...)) }
	printf(w, "%s audited in %s, %s\n", rows.Count(a.Inputs, "input"), a.Of(), rows.Count(a.Calibration, "calibration row"))
	for _, caution := range a.Cautions() {
		line("warning", "%s", caution)
	}
	if c := a.Copies; c != nil {
		verb := "are exact copies"
		if c.Repeated == 1 {
			verb = "is an exact copy"
		}
		line("copies", "%s %s of another, and %s differ; all figures hold whether copies count or not", rows.Count(c.Repeated, "input"), verb, display.Count(c.Distinct))
	}
	line("outliers", "at least %s (%s of the inputs), with probability %g", display.Count(a.Outliers), display.Percent(float64(a.Outliers)/float64(max(a.Inputs, 1))), 1-a.Delta)
	falsely := ""
	if a.Discoveries > 0 {
		falsely = fmt.Sprintf("; at most %.3g %% of these are false, with probability %g", 100*a.FDP, 1-a.Delta)
	}
	line("discoveries", "%s at a false discovery rate of %g%s", display.Count(a.Discoveries), a.FDR, falsely)
	shift := fmt.Sprintf("p = %.3g", a.Shift.Higher)
	if a.Shift.Higher == 0 {
		shift = "p < 1e-300"
	}
	line("shift", "%s (%s)", a.ShiftFinding(), shift)
	for _, of := range a.Intervals {
		name, covered := "", ""
		if len(a.Intervals) > 1 {
			name = of.Name + ": "
		}
		if of.WithTarget > 0 {
			covered = fmt.Sprintf("; %s of %s are within their intervals (level %s)", display.Percent(of.CoveredShare()), rows.Count(of.WithTarget, "target"), display.Asked(a.Level))
		}
		line("intervals", "%s%s unusually wide%s", name, display.Count(of.Wide), covered)
	}
	if a.FitDuplicates != nil {
		line("fit rows", "%s near a row of --fitted", rows.Count(*a.FitDuplicates, "input"))
	}
	for _, g := range a.Gaps {
		line("note", "%v", g)
	}
	if a.Unnamed() {
		line("note", "more outliers than discoveries: the others cannot be told, one by one, from inliers; the report lists the highest scores first")
	} else if a.TooFew() {
		line("note", "%s", a.FewRows())
		line("", "what to do: calibrate with more rows, or use the bound on outliers")
	}
	printf(w, "%s\n", filepath.Join(dir, "report.html"))
}
