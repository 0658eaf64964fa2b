package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

// modelInputs runs the model on the rows to fit and to calibrate on.
func modelInputs(c *cli.Context, r *reading, in *attach.Inputs, path string, model *featurize.Model) error {
	info := model.Info()
	in.Base = baseOf(path, model, attach.Task(info.Task))
	if t := c.String("task"); t != "" {
		in.Base.Task = attach.Task(t)
	}
	if in.Base.Task != attach.Classification && in.Base.Task != attach.Regression {
		return errors.New("whether the model classifies or regresses cannot be told from its graph; say --task classification or --task regression")
	}
	if err := refuseForTask(c, in); err != nil {
		return err
	}
	in.Base.Sigmoid = in.Base.Task == attach.Classification && info.Normaliser == "Sigmoid" && info.OutputsWidth > 1
	r.fitTo(model)
	if err := r.checkClasses(); err != nil {
		return err
	}
	if in.SkipQuantiles {
		r.options.Outputs = 0
	}
	in.Last, in.Network, in.InputScale = model.Last(), model.Network(), r.options.InputScale()
	in.Preprocess, in.Layout = r.raw, string(r.options.Layout)
	read := func(x, y, flag string) (rowsOf, error) {
		set, err := r.open(c.Context, x, y, r.classes)
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
		b, err := r.features(c.Context, model, x, set)
		if in.Base.Task == attach.Regression {
			b.Labels = nil
		}
		if in.Base.Classes == nil {
			in.Base.Classes = classNames(set, r.classes)
		}
		return rowsOf{b, targets, set.Groups()}, err
	}
	err := readBoth(c, in, read)
	in.Base.Columns = r.columns
	return err
}

// baseOf is what a bundle says of the model at path.
func baseOf(path string, model *featurize.Model, task attach.Task) attach.Base {
	info := model.Info()
	base := attach.Base{Path: path, SHA256: model.SHA256(), Task: task, Feature: info.Feature.Tensor, Output: info.Output}
	for _, l := range info.Layers {
		base.Layers = append(base.Layers, attach.Layer{Tensor: l.Tensor, Width: l.Width})
	}
	return base
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
func readBoth(c *cli.Context, in *attach.Inputs, read func(x, y, flag string) (rowsOf, error)) error {
	rows, err := read(c.String("x"), c.String("y"), "--y")
	in.Batch, in.Targets, in.Groups = rows.batch, rows.targets, rows.groups
	if err != nil || c.String("cal") == "" {
		return err
	}
	rows, err = read(c.String("cal"), c.String("cal-y"), "--cal-y")
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

// featureInputs reads precomputed features.
func featureInputs(c *cli.Context, in *attach.Inputs) error {
	in.Base.Task = attach.Task(c.String("task"))
	if in.Base.Task == "" {
		return usagef("attach fit without MODEL.onnx needs --task classification or --task regression")
	}
	if err := refuseForTask(c, in); err != nil {
		return err
	}
	var err error
	if in.Last, err = loadWeights(c); err != nil {
		return err
	}
	return readBoth(c, in, func(x, y, flag string) (rowsOf, error) {
		rows, err := featureRows(c, in, x, y, flag)
		if err != nil {
			return rows, err
		}
		rows.groups, err = featureGroups(c, x, rows.batch.Len())
		return rows, err
	})
}

// featureGroups reads the groups of precomputed rows, where they are asked for.
func featureGroups(c *cli.Context, x string, rows int) ([]string, error) {
	name := c.String("groups")
	if name == "" {
		return nil, nil
	}
	return inputs.OpenGroups(x, name, rows)
}

func featureRows(c *cli.Context, in *attach.Inputs, x, y, flag string) (rowsOf, error) {
	var rows rowsOf
	var wants []inputs.Widths
	if in.Batch.Len() > 0 {
		wants = append(wants, widthsOf(c.String("x"), in.Batch))
	}
	b, err := openLayerFeatures(c, x, in.Last, wants...)
	if err != nil {
		return rows, err
	}
	noteFeatures(x, c.App.ErrWriter)
	var t inputs.Targets
	if y != "" || in.Base.Task == attach.Regression && holdsAny(x, "y", "targets") {
		outputs := b.Logits.Cols
		if in.SkipQuantiles {
			outputs = 0
		}
		if t, err = inputs.OpenTargets(c.Context, cmp.Or(y, x), b.Len(), outputs); err != nil {
			return rows, err
		}
	}
	switch {
	case in.Base.Task == attach.Regression:
		b.Labels = nil
		err = checkTargets(x, y, flag, t.Values, b.Logits.Cols, in.SkipQuantiles)
	case y != "":
		b.Labels = t.Labels
		fallthrough
	default:
		if b.HasLogits() {
			err = checkLabels(x, y, b.Labels, t.Values, b.Logits.Cols)
		}
	}
	return rowsOf{batch: b, targets: t.Values}, err
}
