package command

import (
	"cmp"
	"context"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/report"
)

// evaluating is what attach evaluate is called with.
type evaluating struct {
	attachedFlags
	y, others string
	report    string
	otherRows inputs.Slice
	json      bool
	failIf    []string
	gates     []gate
	more      evaluate.Options
}

func evaluateCommand() *cli.Command {
	f := &evaluating{}
	features, model := f.attachedOptions()
	f.table = join(table{
		{name: "x", to: &f.x, needed: true, file: rowFile, usage: "INPUTS: rows like those to predict, with labels or targets: " + inputKinds + "; with --from-features, what `attach features` writes"},
		{name: "y", to: &f.y, file: otherFile, usage: "FILE: their labels or targets, where --x does not hold them", never: []never{f.targeted()}},
		{name: "ood", to: &f.others, file: rowFile, usage: "INPUTS: rows from elsewhere, which are to be flagged", never: []never{noDetector()}},
		sliceOption("ood-rows", "--ood", &f.otherRows, idle("without --ood", func() bool { return f.others == "" })),
	}, features, table{
		{name: "level", to: setShares("--level", &f.o.Level, &f.more.Levels), usage: "LEVELS: levels of intervals or sets, such as .8,.9; the first is the one that groups and pictures are of, instead of what fit was given", never: f.levelless()},
		{name: "alpha", to: setShares("--alpha", &f.o.Alpha, &f.more.Alphas), usage: "SHARES: shares of in-domain inputs that may be flagged by mistake; the first instead of what fit was given, the others instead of .01,.05,.1", never: []never{noDetector()}},
		f.flagByClassOption(),
	}, f.setOptions(), f.groupsOption(", to show coverage and flags by group"), table{
		{name: "seed", to: &f.o.Seed, usage: "N: seed of all that is drawn: the rows of pictures and slabs, --smoothed, --sets-by-cluster and --interval-score rcp"},
		{name: "json", to: &f.json, usage: "print JSON"},
		{name: "report", to: &f.report, must: ends(".html"), file: resultFile, usage: "FILE: .html to write a page to, with all of it drawn"},
		{name: "fail-if", to: &f.failIf, usage: "GATE: exit with status 3 if that is so: violated, where any guarantee is, or a figure and a bound such as coverage<.88; repeat for more"},
	}, model)
	return f.command(cli.Command{
		Name:      "evaluate",
		Usage:     "show on rows whose truth is known whether the promises of M.attach are kept",
		UsageText: "attach evaluate M.attach --x LABELLED [--ood OTHERS] [--report page.html]",
		Description: "Says of each promise whether rows like these see it kept: how many are flagged by mistake, how often intervals or sets hold the truth. " +
			"A promise is broken where a kept one would be missed as far less than once in a hundred times, and rows are too few to tell where one broken by a factor of two could " +
			"pass unnoticed. A limit names a part of the rows, such as a class or a decile of the predictions, for which a guarantee of the average does not hold. Then come accuracy and confidence of a classifier, errors, coverage and widths of a regressor; docs/guides/gates-in-ci.md says what each figure is.\n\n" +
			"Figures for --fail-if: " + strings.Join(figures(), ", ") + ". Those of a level or an alpha take it behind an @, as in coverage@.8<.75. Where there are several targets the gate holds for each.",
	}, argument{name: "M.attach", to: &f.path}, f.choose, f.writable, f.run)
}

// setShares reads a list whose first is the evaluation's own.
func setShares(option string, first *float64, others *[]float64) func(list string) error {
	return func(list string) error {
		shares, err := parseShares(option, list)
		if err == nil {
			*first, *others = shares[0], shares[1:]
		}
		return err
	}
}

// choose is a step that reads the gates.
func (f *evaluating) choose(*cli.Context) (err error) {
	f.gates, err = parseGates(f.failIf)
	return err
}

func (f *evaluating) run(c *cli.Context) error {
	m, err := f.open(c.App.ErrWriter)
	if err != nil {
		return err
	}
	predictor, stop, err := m.predictor(c.Context, f.predictOptions(m.Bundle))
	if err != nil {
		return err
	}
	defer stop()
	defer m.CloseModel()
	e, err := f.evaluate(c.Context, m, predictor)
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := writePage(c.Context, f.report, report.Evaluation(filepath.Base(f.path), filepath.Base(f.x), e)); err != nil {
			return err
		}
	}
	if f.json {
		err = writeJSON(c.App.Writer, e)
	} else {
		_, err = io.WriteString(c.App.Writer, report.EvaluationText(e))
	}
	return cmp.Or(err, checkGates(f.gates, e))
}

// evaluate reads the rows and compares.
func (f *evaluating) evaluate(ctx context.Context, m *attached, predictor *attach.Predictor) (*evaluate.Evaluation, error) {
	p := newProgress(m.stderr, "evaluate")
	defer p.end()
	m.TellsLeft = true
	rows, err := m.OpenRows(ctx, f.x, f.y, f.rows)
	if err != nil {
		return nil, err
	}
	left := m.LeftOut
	if rows.Known.Odd != nil {
		return nil, inputs.InFile(cmp.Or(f.y, f.x), rows.Known.Odd)
	}
	n, done := rows.N, 0
	counted := func(path string, blocks iter.Seq2[attach.Rows, error]) iter.Seq2[attach.Rows, error] {
		return func(yield func(attach.Rows, error) bool) {
			for r, err := range blocks {
				if err != nil {
					err = inputs.InFile(path, err)
				}
				if !yield(r, err) {
					return
				}
				done += r.Len()
				p.set(done, n)
			}
		}
	}
	o := f.more
	if f.others != "" {
		// Nothing is to be known of these rows.
		m.Classes, m.Inputs.Labels, m.Inputs.Groups, m.Inputs.NoTargets, m.Inputs.TargetOptional = nil, false, "", true, true
		others, err := m.OpenRows(ctx, f.others, "", f.otherRows)
		if err != nil {
			return nil, err
		}
		n += others.N
		o.OOD = counted(f.others, others.Blocks(false))
	}
	e, err := evaluate.Rows(ctx, predictor, counted(f.x, rows.Blocks(true)), o)
	if err == nil && left != "" {
		e.Notes = slices.Insert(e.Notes, 0, evaluate.Note{Message: left})
	}
	return e, err
}
