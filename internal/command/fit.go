package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/report"
)

// fitCall is a call of attach fit.
type fitCall struct {
	table
	place
	reading
	head         intervals
	in           attach.FitOptions
	path         string // of MODEL.onnx, or ""
	x, cal       given
	weights, out string
	holdout      float64 // share of x that is evaluated on
	kept         attach.Rows
	params       []string
}

func fitCommand() *cli.Command {
	f := &fitCall{in: attach.FitOptions{Alpha: rows.DefaultAlpha, Level: rows.DefaultLevel, CalFraction: rows.DefaultFraction, Stays: true}}
	in := &f.in
	task := func(t attach.Task) func() bool { return func() bool { return in.Base.Task == t } }
	regression := task(attach.Regression)
	withModel := idle("with MODEL.onnx", func() bool { return f.path != "" })
	alone := idle("without MODEL.onnx", func() bool { return f.path == "" })
	noCal := idle("without --cal", func() bool { return f.cal.x == "" })
	hasCal := idle("with --cal", func() bool { return f.cal.x != "" })
	noDetector := idle("with --no-detector", func() bool { return in.SkipDetector })
	unread := idle("with --no-intervals, as only the quantile head learns from targets", func() bool { return regression() && in.SkipQuantiles })
	noHead := []never{
		idle("with --no-intervals", func() bool { return in.SkipQuantiles }),
		idle("for a classifier, which gets no quantile head", task(attach.Classification)),
	}
	setless := idle("for a classifier whose calibration rows have no labels, or no logits, and so no sets of classes", func() bool {
		cal := in.Cal
		if cal.Len() == 0 {
			cal = in.Batch
		}
		return in.Base.Task == attach.Classification && cal.Len() > 0 && (cal.Labels == nil || cal.Logits.Cols == 0)
	})
	read := join(f.rowOptions(&f.table, f.textless()), f.modelOptions(), f.layersOption(
		idle("for a detector that does not look at earlier layers", f.layerless),
		idle("for a regressor, whose default detector does not look at earlier layers", func() bool { return regression() && in.Method.Name == "" }),
	), f.batchOption(batchStandard))
	classless := idle("for a regressor, which has no classes", regression)
	read.of("keep-classes", "folder-labels").unless(classless)
	f.table = join(table{
		{name: "x", to: &f.x.x, needed: true, file: rowFile, usage: "INPUTS: in-domain rows: " + inputKinds + "; without MODEL.onnx, features as `attach features` writes them, lists of them as .parquet, or rows×columns as .npy"},
		{name: "y", to: &f.x.y, file: otherFile, usage: "FILE: their labels or targets, where --x does not hold them", never: []never{unread, f.targeted()}},
		{name: "cal", to: &f.cal.x, file: rowFile, usage: "INPUTS: in-domain rows to calibrate with, which neither the network nor the heads were trained on"},
		{name: "cal-y", to: &f.cal.y, file: otherFile, usage: "FILE: labels or targets of --cal, where it does not hold them", never: []never{noCal, unread, f.targeted()}},
		sliceOption("rows", "--x", &f.x.rows),
		sliceOption("cal-rows", "--cal", &f.cal.rows, noCal),
		{name: "o", to: &f.out, needed: true, file: resultFile, must: noStream, usage: "FILE: where to write what is fitted, such as M.attach"},
		{name: "task", to: (*string)(&in.Base.Task), choices: tasks(), usage: "WHAT: classification or regression, where the model's graph does not tell which it does"},
		{name: "method", to: f.setMethod, choices: names(detectors()), never: []never{noDetector}, usage: "NAME: out-of-domain detector, of those that `attach methods` lists (default: fused-layers, or what docs/guides/which-method.md says where the rows lack what it needs)"},
		{name: "param", to: &f.params, usage: "NAME=VALUE: parameter of the detector in place of its default, such as dropout=.2 of bald; repeat for more",
			never: []never{noDetector, {when: func() bool { return in.Method.Name == "" }, says: "needs --method: parameters are those of a method"}}},
		{name: "no-detector", to: &in.SkipDetector, usage: "fit no out-of-domain detector"},
		{name: "no-intervals", to: &in.SkipQuantiles, usage: "fit no quantile head",
			never: []never{{when: func() bool { return in.SkipDetector }, says: "and --no-detector leave nothing to fit"}, idle("for a classifier, which gets no quantile head", task(attach.Classification))}},
	}, f.head.headOptions().unless(noHead...), f.groupsOption("; intervals are then calibrated group by group, and predict needs --groups too", noHead...),
		f.classNamesOption("", classless), weightsOption(&f.weights, "without MODEL.onnx, for methods that read them", withModel), table{
			{name: "cal-fraction", to: &in.CalFraction, must: share, usage: "SHARE: share of --x that is split off to calibrate with, where there is no --cal", never: []never{hasCal}},
			{name: "holdout", to: &f.holdout, must: share, usage: "SHARE: share of --x that is neither fitted on nor calibrated with, and that is evaluated on, as `attach evaluate` does, on standard error"},
			{name: "alpha", to: &in.Alpha, must: share, usage: "SHARE: share of in-domain inputs that may be flagged by mistake; predict can choose another", never: []never{noDetector}},
			{name: "level", to: &in.Level, must: share, usage: "PROBABILITY: how likely an interval is to cover the target, or a set of classes to hold the right one; predict can choose another", never: []never{noHead[0], setless}},
			{name: "seed", to: &in.Seed, usage: "N: seed of all that is drawn at random"},
		},
		read.unless(alone), f.runtimeOptions())
	return f.command(cli.Command{
		Name:      "fit",
		Usage:     "fit and calibrate a detector and, for a regressor, intervals; write M.attach",
		UsageText: "attach fit MODEL.onnx --x INPUTS [--y FILE] [--cal INPUTS] -o M.attach\nattach fit --x FEATURES.npz --task WHAT [--weights W.npz] -o M.attach",
		Description: "Fits an out-of-domain detector on the model's features of in-domain inputs and, for a regressor, a quantile head, which its " +
			"intervals come from, and calibrates both. The model itself stays as it is; M.attach is what `attach predict` takes.\n\n" +
			"Coverage and p-values hold for rows that neither the network nor the heads were trained on: pass such rows with --cal. Where calibration " +
			"rows are split off --x and the network has seen them, intervals may cover less, and p-values may be too small: fit warns where it is right on nearly all of --x.",
	}, argument{name: "MODEL.onnx", to: &f.path, optional: true}, f.choose, f.begin, f.log, f.writable, f.run)
}

// tasks are the values of --task.
func tasks() []string { return []string{string(attach.Classification), string(attach.Regression)} }

func (f *fitCall) setMethod(name string) error {
	var ok bool
	if f.in.Method, ok = attach.MethodByName(name); !ok || f.in.Method.Needs.Targets {
		return fmt.Errorf("--method %q is not known; `attach methods` lists them", name)
	}
	return nil
}

// layerless says that there is no detector, or one that does not look at
// earlier layers.
func (f *fitCall) layerless() bool {
	return f.in.SkipDetector || f.in.Method.Name != "" && !f.in.Method.Needs.Layers
}

func (f *fitCall) run(c *cli.Context) error {
	engine, stop, err := f.engine(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	f.in.Trainer, f.in.Log = engine, f.Log
	defer f.CloseModel()
	if f.path == "" {
		err = f.readFeatures(c.Context)
	} else {
		err = f.readModel(c.Context)
	}
	if err := cmp.Or(err, f.check()); err != nil {
		return err
	}
	if f.holdout > 0 {
		f.keepBack()
	}
	b, err := f.fit(c.Context, "fit")
	if few := (*rows.TooFewRowsError)(nil); errors.As(err, &few) {
		err = inputs.InFile(f.x.x, err)
	}
	if reused := (*rowhash.ReusedError)(nil); errors.As(err, &reused) {
		err = inputs.InFile(f.cal.x, err)
	}
	if err != nil {
		return err
	}
	f.note(b)
	if f.holdout > 0 {
		return f.evaluate(c.Context, b)
	}
	return nil
}

// keepBack takes the rows that are evaluated on out of those that are fitted on.
func (f *fitCall) keepBack() {
	in := &f.in
	rest, kept := rows.Split(in.Batch.Len(), f.holdout, in.Seed)
	f.kept = attach.Rows{Batch: in.Batch.Select(kept), Targets: rows.Select(in.Targets, kept)}
	in.Batch, in.Targets = in.Batch.Select(rest), rows.Select(in.Targets, rest)
	if in.Groups == nil {
		return
	}
	var groups []string
	for _, i := range kept {
		f.kept.Groups = append(f.kept.Groups, in.Groups[i])
	}
	for _, i := range rest {
		groups = append(groups, in.Groups[i])
	}
	in.Groups = groups
}

// evaluate shows on the rows that were kept back whether promises are kept.
func (f *fitCall) evaluate(ctx context.Context, b *attach.Bundle) error {
	p, err := b.Predictor(attach.PredictOptions{Seed: f.in.Seed})
	if err != nil {
		return err
	}
	blocks := func(yield func(attach.Rows, error) bool) { yield(f.kept, nil) }
	e, err := evaluate.Rows(ctx, p, blocks, evaluate.Options{})
	if err != nil {
		return inputs.InFile(f.x.x, err)
	}
	printf(f.stderr, "evaluated on %s of %s, kept back\n", rows.Count(f.kept.Len(), "other row"), f.x.x)
	_, err = io.WriteString(f.stderr, report.EvaluationText(e))
	return err
}

// fit fits and saves, and shows how far it is.
func (f *fitCall) fit(ctx context.Context, what string) (*attach.Bundle, error) {
	p := newProgress(f.stderr, what)
	defer p.end()
	f.in.Progress = func(stage string, share float64) { p.share(share, fmt.Sprintf("%s %.0f %%", stage, 100*share)) }
	b, err := attach.Fit(ctx, f.in)
	if err != nil {
		return nil, err
	}
	return b, b.Save(ctx, f.out)
}

// choose is a step that reads what options say together.
func (f *fitCall) choose(*cli.Context) error {
	f.x.yFlag, f.cal.yFlag = "--y", "--cal-y"
	if whole := (inputs.Slice{}); f.oneFile() && (f.x.rows == whole || f.cal.rows == whole) {
		return usagef("--cal %s is what --x reads; say with --rows and --cal-rows which rows are fitted on and which calibrated on, or leave out --cal to have some split off", f.cal.x)
	}
	if f.path == "" && f.in.Base.Task == "" {
		return usagef("attach fit without MODEL.onnx needs --task classification or --task regression")
	}
	var err error
	if f.in.Params, err = parseParams(strings.Join(f.params, " ")); err != nil {
		return usagef("--param: %v", err)
	}
	if _, err := fitting.With(f.in.Method, f.in.Params); err != nil {
		return usagef("--param: %v", err)
	}
	if f.cal.x != "" {
		f.in.CalFraction = 0
	}
	if f.layerless() {
		f.EarlierLayers = 0
	}
	if f.in.SkipQuantiles {
		return nil
	}
	return f.head.choose(f.table, &f.in)
}
