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
	"github.com/attach-uncertainty/attach/ood"
)

// fitCall holds the flags of attach fit and the rows to fit on.
type fitCall struct {
	table
	modelFlags
	rowReader
	interval     intervalFlags
	options      attach.FitOptions
	path         string // path of MODEL.onnx, or ""
	x, cal       rowSource
	targetRows   string    // path of unlabelled rows like those to predict, or ""
	shift        string    // what differs in targetRows, covariateShift or labelShift
	target       ood.Batch // the rows of targetRows
	weights, out string
	holdout      float64 // fraction of x that is held out for evaluation
	heldOut      attach.Rows
	params       []string
	numbered     []string // names of the folders or labels that are numbered in sorted order
}

// These are the values of --shift.
const covariateShift, labelShift = "covariate", "label"

func fitCommand() *cli.Command {
	f := &fitCall{shift: covariateShift, options: attach.FitOptions{Alpha: rows.DefaultAlpha, Level: rows.DefaultLevel, CalFraction: rows.DefaultFraction, MayRetain: true}}
	in := &f.options
	task := func(t attach.Task) func() bool { return func() bool { return in.Base.Task == t } }
	regression := task(attach.Regression)
	withModel := noEffect("with MODEL.onnx", func() bool { return f.path != "" })
	withoutModel := noEffect("without MODEL.onnx", func() bool { return f.path == "" })
	noCal := noEffect("without --cal", func() bool { return f.cal.x == "" })
	hasCal := noEffect("with --cal", func() bool { return f.cal.x != "" })
	noDetector := noEffect("with --no-detector", func() bool { return in.SkipDetector })
	targetsUnused := noEffect("with --no-intervals, because only intervals need targets", func() bool { return regression() && in.SkipIntervals })
	noIntervals := noEffect("with --no-intervals", func() bool { return in.SkipIntervals })
	classifier := conflict{when: task(attach.Classification), reason: "is for regressors, and the model is a classifier; leave it out"}
	noSets := noEffect("for a classifier without labels or logits, because it gets no prediction sets", func() bool {
		cal := in.Cal
		if cal.Len() == 0 {
			cal = in.Batch
		}
		return in.Base.Task == attach.Classification && cal.Len() > 0 && (cal.Labels == nil || cal.Logits.Cols == 0)
	})
	read := join(f.rowOptions(&f.table, f.noTokenizer()), f.modelOptions(), f.layersOption(
		noEffect("for a detector that reads no earlier layers", f.readsNoLayers),
		noEffect("for a regressor, whose default detector reads no earlier layers", func() bool { return regression() && in.Detector.Name == "" }),
	), f.batchOption(defaultBatch))
	notClassifier := conflict{when: regression, reason: "is for classifiers, and the model is a regressor; leave it out"}
	read.pick("keep-classes", "folder-labels").withConflicts(notClassifier)
	f.table = join(table{
		{name: "x", dest: &f.x.x, required: true, file: rowFile, usage: "INPUTS: in-distribution rows to fit on; see `attach help inputs`"},
		{name: "y", dest: &f.x.y, file: otherFile, usage: "FILE: labels or targets of --x, if --x does not hold them", conflicts: []conflict{targetsUnused, f.targetConflict()}},
		sliceOption("rows", "--x", &f.x.rows),
		{name: "cal", dest: &f.cal.x, file: rowFile, usage: "INPUTS: held-out rows to calibrate on; the model must not have been trained on them"},
		{name: "cal-y", dest: &f.cal.y, file: otherFile, usage: "FILE: labels or targets of --cal, if --cal does not hold them", conflicts: []conflict{noCal, targetsUnused, f.targetConflict()}},
		sliceOption("cal-rows", "--cal", &f.cal.rows, noCal),
		{name: "cal-fraction", dest: &in.CalFraction, rule: fraction, usage: "FRACTION: without --cal, split this fraction off --x to calibrate on", conflicts: []conflict{hasCal}},
		{name: "holdout", dest: &f.holdout, rule: fraction, usage: "FRACTION: keep this fraction of --x back, evaluate on it as `attach evaluate` does, and print the result to standard error",
			conflicts: []conflict{{when: func() bool { return f.targetRows != "" }, reason: "cannot be combined with --target-rows, because these rows are like --x and not like the target rows"}}},
		{name: "seed", dest: &in.Seed, usage: "N: seed of all random choices, such as which rows are split off"},
	}.inGroup(groupData), table{
		{name: "target-rows", dest: &f.targetRows, file: rowFile, usage: "INPUTS: unlabelled rows like those to predict, if they differ from the calibration rows; p-values, intervals and sets are then weighted"},
		{name: "shift", dest: &f.shift, choices: []string{covariateShift, labelShift}, usage: "SHIFT: how --target-rows differ: covariate, other inputs, with labels or targets that depend on inputs as before; or label, other shares of the classes, with the same inputs in each class",
			conflicts: []conflict{noEffect("without --target-rows", func() bool { return f.targetRows == "" }),
				{when: func() bool {
					return f.shift == labelShift && in.Base.Task != "" && in.Base.Task != attach.Classification
				}, reason: "label is for classifiers, and the model is not one; leave it out"}}},
	}.inGroup(groupGuarantee), f.groupsOption("; intervals are then calibrated per group, and predict needs --groups too", noIntervals, classifier),
		f.classNamesOption("", notClassifier), table{
			{name: "method", dest: f.setMethod, choices: methodNames(detectors()), conflicts: []conflict{noDetector}, usage: "NAME: detector to fit; `attach methods` lists them (default: fused-layers, or a simpler one if the rows lack what it needs)"},
			{name: "param", dest: &f.params, usage: "NAME=VALUE: parameter of the detector, such as k=100; may be repeated",
				conflicts: []conflict{noDetector, {when: func() bool { return in.Detector.Name == "" }, reason: "needs --method, because each method has its own parameters"}}},
			{name: "alpha", dest: &in.Alpha, rule: fraction, usage: "FRACTION: false-alarm rate: fraction of in-distribution inputs that may be flagged; predict can choose another", conflicts: []conflict{noDetector}},
			{name: "no-detector", dest: &in.SkipDetector, usage: "fit no detector, only intervals"},
		}.inGroup(groupDetector), f.interval.intervalOptions(&f.Inputs.Groups, &f.targetRows).withConflicts(noIntervals, classifier), table{
			{name: "level", dest: &in.Level, rule: fraction, usage: "PROBABILITY: coverage of intervals and prediction sets; predict can choose another", conflicts: []conflict{noIntervals, noSets}},
			{name: "no-intervals", dest: &in.SkipIntervals, usage: "fit no intervals, only a detector",
				conflicts: []conflict{{when: func() bool { return in.SkipDetector }, reason: "and --no-detector leave nothing to fit"}, classifier}},
		}.inGroup(groupIntervals), table{
			{name: "o", dest: &f.out, required: true, file: resultFile, rule: notStdout, usage: "FILE: .attach file to write", group: groupOutput},
			{name: "task", dest: (*string)(&in.Base.Task), choices: tasks(), group: groupModel, usage: "TASK: classification or regression, if the model's graph does not tell"},
		}, weightsOption(&f.weights, "without MODEL.onnx", withModel), read.withConflicts(withoutModel), f.runtimeOptions())
	return f.command(cli.Command{
		Name:      "fit",
		Usage:     "fit and calibrate a detector and, for a regressor, intervals",
		UsageText: "attach fit MODEL.onnx --x INPUTS [--cal INPUTS] -o M.attach\nattach fit --x FEATURES.npz --task TASK [--weights W.npz] -o M.attach",
		Description: "Fits a detector on the model's features of in-distribution inputs and, for a regressor, an interval model on its targets. Both are calibrated and written to M.attach, which `attach predict` reads. The model itself does not change.\n\n" +
			"Calibrate on rows that the model was not trained on: pass them with --cal. Models are more confident on their training rows, so intervals calibrated on them are too narrow and too many new inputs are flagged. 1,000 rows or more are good.",
		CustomHelpTemplate: `# a classifier of images, calibrated on held-out digits
attach fit digits_resnet.onnx --x digits_fit.npz --cal digits_cal.npz \
    --preprocess digits.preprocess.json -o digits.attach
# a regressor, with 95 % prediction intervals
attach fit toy_regressor.onnx --x toy_fit.npz --cal toy_cal.npz --level 0.95 -o toy.attach
# one file for both, and another detector
attach fit digits_resnet.onnx --x digits_fit.npz --rows :2000 --cal digits_fit.npz \
    --cal-rows 2000: --preprocess digits.preprocess.json --method knn -o knn.attach`,
	}, argument{name: "MODEL.onnx", dest: &f.path, optional: true}, f.checkFlags, f.readOptionFiles, f.log, f.checkWritable, f.run)
}

// tasks returns the values of --task.
func tasks() []string { return []string{string(attach.Classification), string(attach.Regression)} }

func (f *fitCall) setMethod(name string) error {
	var ok bool
	if f.options.Detector, ok = attach.MethodByName(name); !ok || f.options.Detector.Needs.Targets {
		return unknownMethod("--method", name)
	}
	return nil
}

// readsNoLayers reports whether the fit has no detector, or a detector that reads no earlier
// layers.
func (f *fitCall) readsNoLayers() bool {
	return f.options.SkipDetector || f.options.Detector.Name != "" && !f.options.Detector.Needs.Layers
}

func (f *fitCall) run(c *cli.Context) error {
	engine, stop, err := f.newEngine(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	f.options.Trainer, f.options.Log = engine, f.Log
	defer f.CloseModel()
	if f.path == "" {
		err = f.readFeatures(c.Context)
	} else {
		err = f.readRowsThroughModel(c.Context)
	}
	if err := cmp.Or(err, f.checkConflicts()); err != nil {
		return err
	}
	if f.holdout > 0 {
		f.holdOut()
	}
	if err := f.checkNeighbours(); err != nil {
		return err
	}
	b, err := f.fit(c.Context, "fit")
	if tooFew := (*rows.TooFewRowsError)(nil); errors.As(err, &tooFew) {
		err = inputs.InFile(f.x.x, err)
	}
	if reused := (*rowhash.ReusedError)(nil); errors.As(err, &reused) {
		err = inputs.InFile(f.cal.x, err)
	}
	if err != nil {
		return err
	}
	f.printNotes(b)
	f.noteOtherShift(c.Context, b)
	f.noteUnfamiliar(c.Context, b)
	if f.holdout > 0 {
		return f.evaluate(c.Context, b)
	}
	return nil
}

// checkNeighbours returns an error if --param asks knn for more neighbours than there are
// rows. The method itself would use all rows, because a grid has the same k for any data.
func (f *fitCall) checkNeighbours() error {
	in := &f.options
	k, ok := in.DetectorParams["k"].(float64)
	if !ok || in.Detector.Name != "knn" || k <= float64(in.Batch.Len()) {
		return nil
	}
	return fmt.Errorf("%s: knn cannot use --param k=%g, because there are only %s to fit on; choose a smaller k", f.x.x, k, rows.Count(in.Batch.Len(), "row"))
}

// holdOut takes the fraction --holdout of the rows out of the fit, and keeps them for the
// evaluation.
func (f *fitCall) holdOut() {
	in := &f.options
	rest, held := rows.Split(in.Batch.Len(), f.holdout, in.Seed)
	f.heldOut = attach.Rows{Batch: in.Batch.Select(held), Targets: rows.Select(in.Targets, held)}
	in.Batch, in.Targets, in.OutOfFold = in.Batch.Select(rest), rows.Select(in.Targets, rest), rows.Select(in.OutOfFold, rest)
	if in.Groups == nil {
		return
	}
	var groups []string
	for _, i := range held {
		f.heldOut.Groups = append(f.heldOut.Groups, in.Groups[i])
	}
	for _, i := range rest {
		groups = append(groups, in.Groups[i])
	}
	in.Groups = groups
}

// evaluate tests the guarantees on the held-out rows.
func (f *fitCall) evaluate(ctx context.Context, b *attach.Bundle) error {
	p, err := b.Predictor(attach.PredictOptions{Seed: f.options.Seed})
	if err != nil {
		return err
	}
	blocks := func(yield func(attach.Rows, error) bool) { yield(f.heldOut, nil) }
	e, err := evaluate.Rows(ctx, p, blocks, evaluate.Options{})
	if err != nil {
		return inputs.InFile(f.x.x, err)
	}
	printf(f.stderr, "evaluated on %s of %s, kept back\n", rows.Count(f.heldOut.Len(), "other row"), f.x.x)
	_, err = io.WriteString(f.stderr, report.EvaluationText(e))
	return err
}

// fit fits a bundle, saves it and shows the progress.
func (f *fitCall) fit(ctx context.Context, what string) (*attach.Bundle, error) {
	p := newProgress(f.stderr, what)
	defer p.end()
	f.options.Progress = func(stage string, share float64) { p.show(share, fmt.Sprintf("%s %.0f %%", stage, 100*share)) }
	b, err := attach.Fit(ctx, f.options)
	if err != nil {
		return nil, err
	}
	return b, b.Save(ctx, f.out)
}

// checkFlags is a step of the command: it checks flags that depend on each other, and sets
// the options that follow from them.
func (f *fitCall) checkFlags(*cli.Context) error {
	f.x.yFlag, f.cal.yFlag = "--y", "--cal-y"
	if allRows := (inputs.Slice{}); f.usesOneFile() && (f.x.rows == allRows || f.cal.rows == allRows) {
		return usagef("--cal %s is the file of --x; choose other rows of it with --rows and --cal-rows, or leave out --cal to split some off", f.cal.x)
	}
	var err error
	if f.options.DetectorParams, err = parseParams(strings.Join(f.params, " ")); err != nil {
		return usagef("--param: %v", err)
	}
	if _, err := fitting.With(f.options.Detector, f.options.DetectorParams); err != nil {
		return usagef("--param: %v", err)
	}
	if f.cal.x != "" {
		f.options.CalFraction = 0
	}
	if f.readsNoLayers() {
		f.EarlierLayers = 0
	}
	if f.options.SkipIntervals {
		return nil
	}
	return f.interval.apply(f.table, &f.options)
}
