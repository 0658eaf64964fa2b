package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

// readModel runs the model on the rows to fit and to calibrate on.
func (f *fitting) readModel(ctx context.Context) error {
	if err := f.openModel(ctx, f.path, f.Options); err != nil {
		return err
	}
	in, model, info := &f.in, f.model, f.model.Info()
	in.Base = model.Base(cmp.Or(in.Base.Task, info.Task))
	if in.Base.Task != attach.Classification && in.Base.Task != attach.Regression {
		return errors.New("whether the model classifies or regresses cannot be told from its graph; say --task classification or --task regression")
	}
	if err := f.check(); err != nil {
		return err
	}
	in.Base.Sigmoid = in.Base.Task == attach.Classification && info.Normaliser == "Sigmoid" && info.OutputsWidth > 1
	if err := f.checkClasses(in.Base.Task); err != nil {
		return err
	}
	if in.SkipQuantiles {
		f.inputs.Outputs = 0
	}
	in.Last, in.InputScale = model.Last(), f.inputs.InputScale()
	in.Preprocess, in.Layout = f.raw, f.inputs.Layout
	err := f.readBoth(func(x, y, flag string) (rowsOf, error) {
		set, err := f.openSet(ctx, x, y, f.classes)
		if err != nil {
			return rowsOf{}, err
		}
		targets, _ := set.Targets()
		if in.Base.Task == attach.Regression {
			err = checkTargets(x, y, flag, targets, info.OutputsWidth, in.SkipQuantiles)
		} else {
			err = checkLabels(x, y, set.Labels(), targets, info.OutputsWidth)
		}
		if err != nil {
			return rowsOf{}, err
		}
		b, err := f.features(ctx, x, set)
		if in.Base.Task == attach.Regression {
			b.Labels = nil
		}
		if in.Base.Classes == nil {
			in.Base.Classes = classNames(set, f.classes)
		}
		return rowsOf{b, targets, set.Groups()}, err
	})
	in.Base.Columns = f.columns
	return err
}

// classNames are the names of the folders that images lie in, or the labels that
// were picked by --classes.
func classNames(set *inputs.Set, picked []int) []string {
	names := set.ClassNames()
	if names == nil {
		for _, label := range picked {
			names = append(names, strconv.Itoa(label))
		}
	}
	return names
}

// rowsOf are the rows of one file with what is known of them.
type rowsOf struct {
	batch   ood.Batch
	targets blas32.General
	groups  []string
}

// readBoth reads the rows to fit on and, where they are given, those to
// calibrate on. read is told the file of the rows, that of their targets and
// the flag that names the latter.
func (f *fitting) readBoth(read func(x, y, flag string) (rowsOf, error)) error {
	in := &f.in
	rows, err := read(f.x, f.y, "--y")
	in.Batch, in.Targets, in.Groups = rows.batch, rows.targets, rows.groups
	if err != nil || f.cal == "" {
		return err
	}
	rows, err = read(f.cal, f.calY, "--cal-y")
	in.Cal, in.CalTargets, in.CalGroups = rows.batch, rows.targets, rows.groups
	return err
}

// checkTargets refuses targets that are absent or not the model's. outputs is 0
// where it is not known.
func checkTargets(x, y, flag string, targets blas32.General, outputs int, skip bool) error {
	switch {
	case skip:
		return nil
	case targets.Rows == 0:
		return fmt.Errorf("%s: a quantile head needs targets; pass %s, name the --target column of a table, or pass --no-quantiles", x, flag)
	case outputs > 0 && targets.Cols != outputs:
		return fmt.Errorf("%s: it has %d targets a row, and the model predicts %d", cmp.Or(y, x), targets.Cols, outputs)
	}
	return nil
}

// checkLabels refuses labels that are not the model's classes; none are fine.
func checkLabels(x, y string, labels []int, targets blas32.General, classes int) error {
	if labels == nil && targets.Rows > 0 {
		return fmt.Errorf("%s: the labels of a classifier must be whole numbers, one a row; if the model predicts targets, say --task regression", cmp.Or(y, x))
	}
	if err := inputs.CheckLabels(labels, classes); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(y, x), err)
	}
	return nil
}

// readFeatures reads precomputed features.
func (f *fitting) readFeatures(ctx context.Context) error {
	var err error
	if f.in.Last, err = loadWeights(f.weights); err != nil {
		return err
	}
	return f.readBoth(func(x, y, flag string) (rowsOf, error) {
		rows, err := f.featureRows(ctx, x, y, flag)
		if err != nil {
			return rows, err
		}
		rows.groups, err = featureGroups(x, f.inputs.Groups, rows.batch.Len())
		return rows, err
	})
}

// featureGroups reads the groups of precomputed rows, where they have a name.
func featureGroups(x, name string, rows int) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	return inputs.OpenGroups(x, name, rows)
}

func (f *fitting) featureRows(ctx context.Context, x, y, flag string) (rowsOf, error) {
	in := &f.in
	var wants []inputs.Widths
	if in.Batch.Len() > 0 {
		wants = append(wants, widthsOf(f.x, in.Batch))
	}
	b, err := openLayerFeatures(f.stderr, x, f.weights, in.Last, wants...)
	if err != nil {
		return rowsOf{}, err
	}
	noteFeatures(x, f.stderr)
	regression := in.Base.Task == attach.Regression
	var t inputs.Targets
	if y != "" || regression && holdsAny(x, "y", "targets") {
		outputs := b.Logits.Cols
		if in.SkipQuantiles {
			outputs = 0
		}
		if t, err = inputs.OpenTargets(ctx, cmp.Or(y, x), b.Len(), outputs); err != nil {
			return rowsOf{}, err
		}
	}
	if regression {
		b.Labels = nil
		err = checkTargets(x, y, flag, t.Values, b.Logits.Cols, in.SkipQuantiles)
		return rowsOf{batch: b, targets: t.Values}, err
	}
	if y != "" {
		b.Labels = t.Labels
	}
	if y != "" || b.HasLogits() {
		err = checkLabels(x, y, b.Labels, t.Values, b.Logits.Cols)
	}
	return rowsOf{batch: b, targets: t.Values}, err
}
