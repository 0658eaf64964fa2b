package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/report"
)

// evaluateFlags holds the flags of attach evaluate.
type evaluateFlags struct {
	bundleFlags
	y, oodPath    string
	report        string
	oodRows       inputs.Slice
	json          bool
	failIf        []string
	gates         []gate
	options       evaluate.Options
	time          string // name of the column of times
	delay, window int
	labelled      string
	labelRows     inputs.Slice
}

func evaluateCommand() *cli.Command {
	f := &evaluateFlags{}
	features, model := f.bundleOptions()
	noTime := noEffect("without --time", func() bool { return f.time == "" })
	f.table = join(table{
		{name: "x", dest: &f.x, required: true, file: rowFile, usage: "INPUTS: in-distribution rows, used neither to train nor to calibrate; without labels, errors of a classifier are estimated; see `attach help inputs`"},
		{name: "y", dest: &f.y, file: otherFile, usage: "FILE: labels or targets of --x, or of --labelled if that is given, if it does not hold them", conflicts: []conflict{f.targetConflict()}},
		{name: "labelled", dest: &f.labelled, file: rowFile, usage: "INPUTS: a few rows with labels or targets, drawn at random from the source of --x, whose own labels are then not read; they estimate the errors on all rows",
			conflicts: []conflict{{when: func() bool { return f.time != "" }, reason: "cannot be combined with --time, which needs the targets of --x"}}},
		sliceOption("labelled-rows", "--labelled", &f.labelRows, noEffect("without --labelled", func() bool { return f.labelled == "" })),
		{name: "ood", dest: &f.oodPath, file: rowFile, usage: "INPUTS: out-of-distribution rows, to measure how many are detected", conflicts: []conflict{noDetector()}},
		sliceOption("ood-rows", "--ood", &f.oodRows, noEffect("without --ood", func() bool { return f.oodPath == "" })),
	}.inGroup(groupData), features, table{
		{name: "alpha", dest: setFractions("--alpha", &f.predict.Alpha, &f.options.Alphas), usage: "A,B,…: false-alarm rates to test; the first is used for groups and pictures (default: the one of fit, and 0.01,0.05,0.1)", conflicts: []conflict{noDetector()}},
	}.inGroup(groupDetector), table{f.flagByClassOption()}, table{
		{name: "level", dest: setFractions("--level", &f.predict.Level, &f.options.Levels), usage: "A,B,…: coverage levels to test, such as 0.8,0.9; the first is used for groups and pictures (default: the one of fit)", conflicts: f.levelConflicts()},
	}.inGroup(groupIntervals), table{f.jointOption(), f.regionOption()}, f.predictionSetOptions(), f.groupsOption("; coverage and flags are then shown per group"), table{
		{name: "time", dest: &f.time, usage: "NAME: column of a table, or array of an .npz file, with the times of rows: numbers or dates. Shows the coverage along time, with fixed intervals and with intervals that adapt to earlier targets", conflicts: []conflict{noIntervals(), {when: func() bool { return f.predict.Region == conformal.Ellipsoid }, reason: "cannot be combined with --region ellipsoid, which does not adapt; use --region box"}}},
		{name: "delay", dest: &f.delay, rule: atLeast(0), usage: "N: with --time, number of later rows that are predicted before the target of a row is known; forecasts for 24 rows ahead have 23 (default: 0)", conflicts: []conflict{noTime}},
		{name: "window", dest: &f.window, rule: atLeast(1), usage: "N: with --time, number of successive rows whose coverage is measured, and of recent rows that calibrate adaptive intervals (default: rows with 20 misses on average, 200 at level 0.9; at most a quarter of the rows)", conflicts: []conflict{noTime}},
	}.inGroup(groupTime), table{
		{name: "report", dest: &f.report, rule: hasExtension(".html"), file: resultFile, usage: "FILE: .html page with verdicts, tables and plots"},
		{name: "fail-if", dest: &f.failIf, choices: gateFigures(), usage: "CONDITION: exit with status 3 if it holds, such as violated or 'coverage<0.88'; may be repeated; see `attach help gates`"},
		{name: "json", dest: &f.json, usage: "print JSON"},
		{name: "seed", dest: &f.predict.Seed, usage: "N: seed of random choices: rows drawn in pictures, worst slabs, --smoothed, --sets-by-cluster, --interval-score rcp and --region ellipsoid"},
	}.inGroup(groupOutput), model)
	return f.command(cli.Command{
		Name:      "evaluate",
		Usage:     "test on labelled rows whether the guarantees of a .attach file are met",
		UsageText: "attach evaluate M.attach --x LABELLED [--ood INPUTS] [--report page.html]",
		Description: "Tests each guarantee on rows that the file has not seen: the false-alarm rate, and the coverage of intervals or prediction sets. A guarantee is *violated* if a result this bad has a probability below 1 % when it holds, and otherwise *met*. It says *too few rows* if a rate twice as high could pass unnoticed.\n\n" +
			"It also names limits: classes, groups, deciles of the predictions or regions of the input columns for which the guarantee on average does not hold, and an option that helps. Accuracy, calibration, errors and widths follow. If the rows have no labels, the error rate of a classifier is estimated from its confidence; --labelled estimates errors from a few labelled rows.",
		CustomHelpTemplate: `# are the guarantees met, and how many letters are detected?
attach evaluate digits_resnet.attach --x digits_test.npz --ood letters.npz
# a page with plots
attach evaluate toy_regressor.attach --x toy_test.npz --report page.html
# fail a CI job
attach evaluate toy_regressor.attach --x toy_test.npz --fail-if violated --fail-if 'coverage<0.9'`,
	}, argument{name: "M.attach", dest: &f.path}, f.parseGates, f.checkWritable, f.run)
}

// setFractions returns a function that parses a list of fractions. The first one is for the
// predictor, and all others are for the evaluation.
func setFractions(option string, first *float64, rest *[]float64) func(list string) error {
	return func(list string) error {
		all, err := parseFractions(option, list)
		if err == nil {
			*first, *rest = all[0], all[1:]
		}
		return err
	}
}

// parseGates parses the conditions of --fail-if. The command calls it before run.
func (f *evaluateFlags) parseGates(*cli.Context) (err error) {
	f.gates, err = parseGates(f.failIf)
	return err
}

func (f *evaluateFlags) run(c *cli.Context) error {
	f.KeepInputs = true // to name the input columns of rows that are covered too rarely
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
	return cmp.Or(err, checkGates(f.gates, e, untestedGuarantee(m.Bundle, e)))
}

var errNoLabels = errors.New("the labelled rows have no labels or targets; name their column with --target, or pass --y")

// evaluate reads the rows and tests the guarantees on them.
func (f *evaluateFlags) evaluate(ctx context.Context, m *openedBundle, predictor *attach.Predictor) (*evaluate.Evaluation, error) {
	p := newProgress(m.stderr, "evaluate")
	defer p.end()
	m.ReportsLeftOut = true
	if f.time != "" && inputs.IsTable(f.x) && m.Bundle.Base.Columns == nil {
		m.Inputs.Ignore = append(slices.Clone(m.Inputs.Ignore), f.time)
	}
	n, done := 0, 0
	withProgress := func(path string, blocks iter.Seq2[attach.Rows, error]) iter.Seq2[attach.Rows, error] {
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
	o := f.options
	openLabelled := func(path string, slice inputs.Slice) (*modelrows.Rows, error) {
		rows, err := m.OpenRows(ctx, path, f.y, slice)
		if err == nil && rows.Known.DropReason != nil {
			err = inputs.InFile(cmp.Or(f.y, path), rows.Known.DropReason)
		}
		if err != nil {
			return nil, err
		}
		n += rows.N
		return rows, nil
	}
	var rows *modelrows.Rows
	var err error
	var leftOut string
	if f.labelled == "" {
		rows, err = openLabelled(f.x, f.rows)
		leftOut = m.LeftOut
	} else {
		var labelled *modelrows.Rows
		if labelled, err = openLabelled(f.labelled, f.labelRows); err != nil {
			return nil, err
		}
		if labelled.Known.Labels == nil && labelled.Known.Targets.Cols == 0 {
			return nil, inputs.InFile(cmp.Or(f.y, f.labelled), errNoLabels)
		}
		leftOut = m.LeftOut
		o.Labelled = withProgress(f.labelled, labelled.Blocks(true))
		m.Classes, m.Inputs.Labels, m.Inputs.NoTargets, m.Inputs.TargetOptional, m.Unlabelled = nil, false, true, true, true
		if rows, err = m.OpenRows(ctx, f.x, "", f.rows); err == nil {
			n += rows.N
		}
	}
	if err != nil {
		return nil, err
	}
	o.Schema = rows.Schema
	if f.time != "" {
		times, err := f.times(ctx, rows)
		if err != nil {
			return nil, err
		}
		o.Series = &evaluate.SeriesOptions{Times: times, Delay: f.delay, Window: f.window}
	}
	if f.oodPath != "" {
		// Out-of-distribution rows need no labels, groups or targets.
		m.Classes, m.Inputs.Labels, m.Inputs.Groups, m.Inputs.NoTargets, m.Inputs.TargetOptional = nil, false, "", true, true
		oodInput, err := m.OpenRows(ctx, f.oodPath, "", f.oodRows)
		if err != nil {
			return nil, err
		}
		n += oodInput.N
		o.OOD = withProgress(f.oodPath, oodInput.Blocks(false))
	}
	e, err := evaluate.Rows(ctx, predictor, withProgress(f.x, rows.Blocks(f.labelled == "")), o)
	if o.Series != nil {
		err = inputs.InFile(f.x, err)
	}
	if err == nil && leftOut != "" {
		e.Notes = slices.Insert(e.Notes, 0, evaluate.Note{Message: leftOut})
	}
	return e, err
}

// times reads the times of rows. They are numbered as in the file, which may have more rows.
func (f *evaluateFlags) times(ctx context.Context, rows *modelrows.Rows) ([]string, error) {
	all, err := inputs.OpenTimes(ctx, f.x, f.time)
	if err != nil {
		return nil, inputs.InFile(f.x, err)
	}
	times := make([]string, rows.N)
	for i := range times {
		row, ok := rows.Name(i).(int)
		if !ok || row >= len(all) {
			return nil, fmt.Errorf("%s: --time needs one time for each row", f.x)
		}
		times[i] = all[row]
	}
	return times, nil
}
