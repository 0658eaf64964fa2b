package command

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// readRowsThroughModel opens the model, reads the rows to fit on and the rows to calibrate on,
// and runs the model on them.
func (f *fitCall) readRowsThroughModel(ctx context.Context) error {
	f.Options.Task = f.options.Base.Task
	if err := f.OpenModel(ctx, f.path, f.Options); err != nil {
		return err
	}
	in, model, info := &f.options, f.Model, f.Model.Info()
	task := cmp.Or(in.Base.Task, info.Task)
	if task == "unknown" && len(f.Inputs.Targets) == 1 && info.OutputsWidth > 1 {
		task = attach.Classification // several outputs for one column are scores of classes, not targets
	}
	in.Base = model.Base(task)
	if in.Base.Task == "unknown" {
		return fmt.Errorf("%s: the graph does not tell whether the model is a classifier or a regressor; pass --task classification or --task regression", f.path)
	}
	if err := f.checkConflicts(); err != nil {
		return err
	}
	if in.Base.Task == attach.Regression && f.ClassNames == "" {
		f.Inputs.Classes = nil // these names of classes came with the model's folder
	}
	if err := cmp.Or(f.CheckClasses(in.Base.Task), f.CheckClassNames(info.OutputsWidth)); err != nil {
		return err
	}
	in.Base.Classes = f.Inputs.Classes
	if in.SkipIntervals {
		f.Inputs.Outputs = 0
	}
	in.Last, in.Layout, in.Text = model.Last(), f.Inputs.Layout, info.Text
	err := f.readBoth(ctx, func(g rowSource) (fileRows, error) {
		set, err := f.OpenSet(ctx, g.x, g.y, g.rows, f.KeepClasses)
		if err != nil {
			return fileRows{}, err
		}
		targets := set.Targets
		if in.Base.Task == attach.Regression {
			err = checkTargets(g, targets, info.OutputsWidth, in.SkipIntervals)
		} else {
			err = cmp.Or(f.checkFolders(g.x, set.ClassNames), checkLabels(g, set.Labels, targets, info.OutputsWidth))
		}
		if err != nil {
			return fileRows{}, err
		}
		in.InputScale, in.Preprocess = f.Inputs.InputScale(), f.Raw
		var learner *schema.Learner
		if in.Profile == nil { // the rows to fit on come first
			learner = f.newLearner(set)
		}
		b, err := f.runModel(ctx, g.x, set, learner)
		if learner != nil {
			in.Profile = learner.Profile()
		}
		if in.Base.Task == attach.Regression {
			b.Labels = nil
			err = cmp.Or(err, f.checkOneLogit(g, b, targets))
		}
		if in.Base.Classes == nil {
			in.Base.Classes, f.numbered = classNames(set, f.KeepClasses), set.ClassNames
			f.Inputs.Classes = set.ClassNames
		}
		if in.Base.Columns = f.Columns; in.Base.Targets == nil {
			in.Base.Targets = set.TargetNames
		}
		if in.Text != nil {
			text := *in.Text
			text.Columns, in.Text = f.Inputs.Text, &text
		}
		return fileRows{b, targets, set.Groups, set.Opened()}, err
	})
	if err != nil || f.targetRows == "" {
		return err
	}
	return f.readTargetRows(ctx)
}

// readTargetRows reads the rows of --target-rows, and computes their features with the model.
func (f *fitCall) readTargetRows(ctx context.Context) error {
	f.Inputs.Groups, f.Inputs.Labels, f.Inputs.NoTargets, f.Inputs.TargetOptional, f.Inputs.SkipOdd = "", false, true, true, true
	f.Unlabelled = true
	set, err := f.OpenSet(ctx, f.targetRows, "", inputs.Slice{}, nil)
	if err != nil {
		return err
	}
	b, err := f.runModel(ctx, f.targetRows, set, nil)
	if err != nil {
		return err
	}
	return f.setTargetRows(b)
}

// setTargetRows sets the rows that weights are estimated from.
func (f *fitCall) setTargetRows(b ood.Batch) error {
	f.options.TargetRows, f.target = b.Features, b
	if f.shift != labelShift {
		return nil
	}
	if b.Logits.Cols == 0 {
		return fmt.Errorf("%s: --shift label needs logits; pass --weights to compute them from the features", f.targetRows)
	}
	f.options.TargetLogits = b.Logits
	return nil
}

// classNames returns the class names of the inputs, which come from folders or from the
// metadata of a Parquet file. Without names, it returns the labels of --keep-classes as
// text.
func classNames(set *inputs.Set, labels []int) []string {
	names := set.ClassNames
	if names == nil {
		for _, label := range labels {
			names = append(names, strconv.Itoa(label))
		}
	}
	return names
}

// rowSource describes rows to read from the file x. Their labels or targets are in the file y
// or, if y is empty, in x. yFlag is the flag that names y.
type rowSource struct {
	x, y, yFlag string
	rows        inputs.Slice
}

// fileRows holds the rows of one file with their targets and groups.
type fileRows struct {
	batch   ood.Batch
	targets blas32.General
	groups  []string
	total   int // number of rows in the file
}

// readBoth reads the rows to fit on and, if there are any, the rows to calibrate on.
func (f *fitCall) readBoth(ctx context.Context, read func(rowSource) (fileRows, error)) error {
	in := &f.options
	rows, err := read(f.x)
	if in.Base.Task != attach.Regression {
		rows.targets = blas32.General{} // the targets of a classifier are its labels, and already in batch
	}
	in.Batch, in.Targets, in.Groups = rows.batch, rows.targets, rows.groups
	if err == nil && f.interval.oof != "" {
		in.OutOfFold, err = f.readOutOfFold(ctx, rows.total)
	}
	if err != nil || f.cal.x == "" {
		return err
	}
	if err := f.checkOverlap(rows.total); err != nil {
		return err
	}
	rows, err = read(f.cal)
	if in.Base.Task != attach.Regression {
		rows.targets = blas32.General{}
	}
	in.Cal, in.CalTargets, in.CalGroups = rows.batch, rows.targets, rows.groups
	return err
}

// readOutOfFold reads the predictions of --oof for the rows of --x. The file of --x has n rows.
func (f *fitCall) readOutOfFold(ctx context.Context, n int) (blas32.General, error) {
	t, err := inputs.OpenTargets(ctx, f.interval.oof, n, f.options.Batch.Logits.Cols, nil)
	if err == nil {
		t, err = t.Slice(f.x.rows)
	}
	if err != nil {
		return t.Values, err
	}
	if used := f.options.Batch.Len(); t.Values.Rows != used {
		return t.Values, fmt.Errorf("%s: it has predictions of %s, but only %s of %s can be used; leave the others out of both files", f.interval.oof, rows.Count(t.Values.Rows, "row"), rows.Count(used, "row"), f.x.x)
	}
	return t.Values, nil
}

// usesOneFile reports whether one file has both the rows to fit on and the rows to
// calibrate on.
func (f *fitCall) usesOneFile() bool { return f.cal.x != "" && sameFile(f.cal.x, f.x.x) }

// checkOverlap returns an error if --x and --cal name the same file and some of its n rows
// would be both fitted and calibrated on.
func (f *fitCall) checkOverlap(n int) error {
	if !f.usesOneFile() {
		return nil
	}
	first, last, err := f.x.rows.Of(n)
	if err != nil {
		return err
	}
	calFirst, calLast, err := f.cal.rows.Of(n)
	if err != nil {
		return inputs.InFile(f.cal.x, err)
	}
	if first < calLast && calFirst < last {
		return usagef("--rows %v and --cal-rows %v overlap in rows %v of the %d in %s; calibrate on rows that are not fitted on",
			f.x.rows, f.cal.rows, inputs.Slice{Start: max(first, calFirst), End: min(last, calLast), Ends: true}, n, f.x.x)
	}
	return nil
}

// checkTargets returns an error if targets are absent or do not match the model, unless
// skip is true. outputs is the number of the model's outputs, or 0 if it is unknown.
func checkTargets(g rowSource, targets blas32.General, outputs int, skip bool) error {
	switch {
	case skip:
		return nil
	case targets.Rows == 0:
		return fmt.Errorf("%s: intervals need targets; pass them with %s, name their column with --target, or pass --no-intervals", g.x, g.yFlag)
	case outputs > 0 && targets.Cols != outputs:
		return fmt.Errorf("%s: rows have %s, but the model predicts %d", cmp.Or(g.y, g.x), rows.Count(targets.Cols, "target"), outputs)
	}
	return nil
}

// checkOneLogit returns an error if a model with one output is more likely a classifier: no
// --task was given, all targets are 0 or 1, and the model predicts them worse than their mean
// would.
func (f *fitCall) checkOneLogit(g rowSource, b ood.Batch, targets blas32.General) error {
	if f.Options.Task != "" || targets.Cols != 1 {
		return nil
	}
	for i := range targets.Rows {
		if v := rows.Row(targets, i)[0]; v != 0 && v != 1 {
			return nil
		}
	}
	if r2 := f.rSquared(b, targets); r2 == nil || r2[0] > 0 || math.IsInf(r2[0], -1) {
		return nil
	}
	return fmt.Errorf("%s: all targets are 0 or 1, and the model predicts them worse than their mean would; pass --task classification if its output is a logit, or else --task regression", cmp.Or(g.y, g.x))
}

// checkLabels returns an error if labels are not whole numbers, or not classes of the
// model. Labels may be absent.
func checkLabels(g rowSource, labels []int, targets blas32.General, classes int) error {
	if labels == nil && targets.Rows > 0 {
		return fmt.Errorf("%s: labels of a classifier must be whole numbers, one per row; if the model is a regressor, pass --task regression", cmp.Or(g.y, g.x))
	}
	if err := inputs.CheckLabels(labels, classes); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(g.y, g.x), err)
	}
	return nil
}

// readFeatures reads precomputed features.
func (f *fitCall) readFeatures(ctx context.Context) error {
	var err error
	if f.options.Last, err = modelrows.LoadWeights(f.weights); err != nil {
		return err
	}
	f.options.Base.Classes = f.Inputs.Classes
	readFeatureFacts(&f.options.Base, f.x.x)
	if f.options.Base.Task == "" {
		// A wrong file is the more likely mistake, so it is reported first.
		if _, _, err := modelrows.OpenFeatures(func(string, ...any) {}, f.x.x, f.x.rows, f.weights, f.options.Last); err != nil {
			return err
		}
		return usagef("`attach fit` without MODEL.onnx needs --task classification or --task regression")
	}
	if err := f.readBoth(ctx, func(g rowSource) (fileRows, error) {
		rows, err := f.featureRows(ctx, g)
		if err != nil {
			return rows, err
		}
		if rows.groups, err = modelrows.FeatureGroups(ctx, g.x, f.Inputs.Groups, g.rows, rows.total); err != nil {
			return rows, err
		}
		return f.dropUnknownTargets(rows, cmp.Or(g.y, g.x))
	}); err != nil || f.targetRows == "" {
		return err
	}
	b, _, err := modelrows.OpenFeatures(notePrinter(f.stderr), f.targetRows, inputs.Slice{}, f.weights, f.options.Last, requiredWidths(f.x.x, f.options.Batch))
	if err != nil {
		return err
	}
	return f.setTargetRows(b)
}

// dropUnknownTargets leaves out precomputed rows without a known target. path is the file
// of the targets.
func (f *fitCall) dropUnknownTargets(r fileRows, path string) (fileRows, error) {
	n := r.targets.Rows
	withTarget := inputs.Targets{Values: r.targets}.Known()
	switch {
	case len(withTarget) == n:
		return r, nil
	case len(withTarget) == 0:
		return r, fmt.Errorf("%s: %w", path, inputs.ErrNoTarget)
	}
	f.LeaveOut(path, n-len(withTarget), n)
	r.batch, r.targets, r.groups = r.batch.Select(withTarget), rows.Select(r.targets, withTarget), rows.Pick(r.groups, withTarget)
	return r, nil
}

func (f *fitCall) featureRows(ctx context.Context, g rowSource) (fileRows, error) {
	in := &f.options
	var widths []inputs.Widths
	if in.Batch.Len() > 0 {
		widths = append(widths, requiredWidths(f.x.x, in.Batch))
	}
	b, n, err := modelrows.OpenFeatures(notePrinter(f.stderr), g.x, g.rows, f.weights, in.Last, widths...)
	if err != nil {
		return fileRows{}, err
	}
	if err := f.CheckClassNames(b.Logits.Cols); err != nil {
		return fileRows{}, err
	}
	noteFeatures(g.x, f.stderr)
	regression := in.Base.Task == attach.Regression
	base := attach.Base{Task: in.Base.Task, Classes: f.Inputs.Classes}
	if !in.SkipIntervals {
		base.Outputs = b.Logits.Cols
	}
	t, err := modelrows.FeatureTargets(ctx, g.x, g.y, base, g.rows, n)
	if err != nil {
		return fileRows{}, err
	}
	if regression {
		b.Labels = nil
		err = checkTargets(g, t.Values, b.Logits.Cols, in.SkipIntervals)
		return fileRows{batch: b, targets: t.Values, total: n}, err
	}
	if g.y != "" {
		b.Labels = t.Labels
	}
	if g.y != "" || b.Logits.Cols > 0 {
		err = checkLabels(g, b.Labels, t.Values, b.Logits.Cols)
	}
	return fileRows{batch: b, targets: t.Values, total: n}, err
}
