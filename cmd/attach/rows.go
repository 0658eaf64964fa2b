package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/regular"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// reading says how the rows of one command are read.
type reading struct {
	options inputs.Options
	// raw is the preprocessing file as it is, or nil.
	raw     json.RawMessage
	maxRows int
	classes []int
	stderr  io.Writer
	// width is what the model takes of each row of a table, 0 where unknown.
	width int
	// model is what reads the rows, or nil.
	model *featurize.Model
	// columns are those of the first table read, or of the table that heads were
	// fitted on; nil where they have no names.
	columns []string
	// hint says what to do with precomputed features that are given as inputs.
	hint string
}

func newReading(c *cli.Context) (*reading, error) {
	r := &reading{
		options: inputs.Options{
			Labels:  c.Bool("labels"),
			Target:  c.String("target"),
			SkipBad: c.Bool("skip-bad"),
			Groups:  c.String("groups"),
		},
		maxRows: c.Int("max-rows"),
		stderr:  c.App.ErrWriter,
		hint:    "leave out MODEL.onnx to go on from them",
	}
	if r.maxRows < 0 {
		return nil, usagef("--max-rows is %d; it must not be negative", r.maxRows)
	}
	var err error
	if r.options.Target != "" {
		err = refuse(c, "with --target, which names the targets too", "y", "cal-y")
	}
	if err == nil && !readsImages(c) {
		err = refuse(c, "where no inputs are images in files", "labels", "skip-bad")
	}
	if err != nil {
		return nil, err
	}
	if r.classes, err = parseInts("classes", c.String("classes")); err != nil {
		return nil, err
	}
	if path := c.String("preprocess"); path != "" {
		if err := r.loadPreprocess(path); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readsImages says whether any of a command's inputs may be images in files.
func readsImages(c *cli.Context) bool {
	paths := []string{c.String("x"), c.String("cal"), c.String("fit"), c.String("in")}
	for _, value := range c.StringSlice("out") {
		out, _ := parseOutFlag(value)
		paths = append(paths, out.path)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".npy", ".npz":
			return false
		}
		return path != "" && !inputs.IsTable(path)
	})
}

// fitTo reads rows the way the model takes them.
func (r *reading) fitTo(model *featurize.Model) {
	info := model.Info()
	r.model, r.options.Layout, r.options.Outputs = model, inputs.Layout(strings.ToLower(info.Layout)), info.OutputsWidth
	if shape := model.InputShape(); len(shape) == 1 {
		r.width = shape[0]
	}
}

// checkClasses refuses --classes that would number labels otherwise than the
// model's outputs are.
func (r *reading) checkClasses() error {
	classes, picked := inputs.ClassesOf(r.options.Outputs), len(r.classes)
	if picked == 0 || classes == 0 || picked == classes {
		return nil
	}
	return usagef("--classes names %d labels, and the model has %d classes; name the label of each, in their order", picked, classes)
}

// open opens the inputs at x and, where y is not empty, their labels or targets
// at y, and cuts them to the rows asked for: rows with labels outside classes
// are left out and the others renumbered, where classes is not empty.
func (r *reading) open(ctx context.Context, x, y string, classes []int) (*inputs.Set, error) {
	set, err := inputs.Open(ctx, x, r.options)
	if errors.Is(err, npy.ErrNoEntry) && holdsAny(x, "features", "feat_list") {
		return nil, fmt.Errorf("%s: it holds features and not the model's inputs (x or images); %s", x, r.hint)
	}
	if err != nil {
		return nil, err
	}
	if s := set.Shape(); len(s) == 1 && r.width > 0 && s[0] == r.width+1 && r.options.Target == "" && inputs.IsTable(x) {
		return nil, fmt.Errorf("%s: it has %d columns and the model takes %d; if one is the target, name it with --target", x, s[0], r.width)
	}
	if err := r.checkShape(ctx, set.Shape()); err != nil {
		return nil, inFile(x, err)
	}
	if err := r.checkColumns(x, set.Columns()); err != nil {
		return nil, err
	}
	if n := set.Skipped(); n > 0 {
		printf(r.stderr, "%s: left out %d images that cannot be read\n", x, n)
	}
	if y != "" {
		if set.ClassNames() != nil {
			return nil, usagef("--labels takes labels from the folders of %s, and %s holds others; leave one out", x, y)
		}
		targets, err := inputs.OpenTargets(ctx, y, set.Len(), r.options.Outputs)
		if err != nil {
			return nil, err
		}
		if err := set.SetTargets(targets); err != nil {
			return nil, err
		}
	}
	return r.cut(x, set, classes)
}

// checkShape refuses rows that the model does not take before memory is taken
// for any: it is handed none of them.
func (r *reading) checkShape(ctx context.Context, shape []int) error {
	if r.model == nil {
		return nil
	}
	none := func(yield func(featurize.Rows, error) bool) {
		yield(featurize.Rows{Shape: append([]int{0}, shape...)}, nil)
	}
	for _, err := range r.model.Features(ctx, none) {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkColumns refuses a table whose columns stand in another order than those
// before it: the model knows them by their places alone. Other names pass.
func (r *reading) checkColumns(path string, columns []string) error {
	if r.columns == nil {
		r.columns = columns
	}
	if len(columns) != len(r.columns) {
		return nil
	}
	for j, name := range columns {
		if want := r.columns[j]; name != want && slices.Contains(r.columns, name) {
			return fmt.Errorf("%s: column %q stands where %q is to be; put the columns in this order: %s", path, name, want, strings.Join(r.columns, ", "))
		}
	}
	return nil
}

func (r *reading) cut(path string, set *inputs.Set, classes []int) (*inputs.Set, error) {
	if len(classes) > 0 {
		var err error
		if set, err = set.OfClasses(classes); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if r.maxRows > 0 {
		set = set.Head(r.maxRows)
	}
	return set, nil
}

// features runs the model on the set and returns features, logits, labels and
// the inputs themselves.
func (r *reading) features(ctx context.Context, model *featurize.Model, what string, set *inputs.Set) (ood.Batch, error) {
	p := newProgress(r.stderr, what)
	defer p.end()
	b, err := model.All(ctx, modelRows(ctx, set), set.Len(), func(done int) { p.set(done, set.Len()) })
	if err != nil {
		return ood.Batch{}, inFile(what, err)
	}
	b.Labels, b.Inputs = set.Labels(), setInputs{set}
	return b, nil
}

// inFile says in which file an error was found, where it does not say so itself.
func inFile(path string, err error) error {
	if strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// openFeatures reads precomputed features.
func openFeatures(path string, wants ...inputs.Widths) (ood.Batch, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npz", ".npy":
	default:
		return ood.Batch{}, fmt.Errorf("%s: features are an .npz file, such as `attach features` writes, or an .npy file of rows and columns; to run a model on inputs, name MODEL.onnx", path)
	}
	return inputs.OpenFeatures(path, wants...)
}

// noteFeatures says how the rows of an .npy file are taken, which may as well be
// a model's inputs.
func noteFeatures(path string, stderr io.Writer) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		printf(stderr, "note: %s: its rows are taken to be features; to run a model on inputs, name MODEL.onnx\n", path)
	}
}

// holdsAny says whether the archive at path has one of the arrays.
func holdsAny(path string, names ...string) bool {
	z, err := npy.OpenNPZ(path)
	return err == nil && slices.ContainsFunc(names, z.Has)
}

// blockRows is how many rows are read at a time, 64 or as many as 64 MiB hold;
// the model cuts them to its own batches.
func blockRows(set *inputs.Set) int { return max(1, min(64, (16<<20)/max(1, set.RowLen()))) }

// modelRows hands a set to a model block by block.
func modelRows(ctx context.Context, set *inputs.Set) iter.Seq2[featurize.Rows, error] {
	return func(yield func(featurize.Rows, error) bool) {
		for block, err := range set.Blocks(ctx, blockRows(set)) {
			rows := featurize.Rows{Data: block.Data, Shape: append([]int{block.N}, set.Shape()...)}
			if !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

// parseInts reads a list such as "4,1,7".
func parseInts(flag, list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var out []int
	for _, f := range strings.Split(list, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil {
			return nil, usagef("--%s is %q; it must be whole numbers with commas between", flag, list)
		}
		out = append(out, v)
	}
	return out, nil
}

// parseFractions reads a list of numbers strictly between 0 and 1.
func parseFractions(flag, list string) ([]float64, error) {
	if list == "" {
		return nil, nil
	}
	var out []float64
	for _, f := range strings.Split(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil || !(v > 0 && v < 1) {
			return nil, usagef("--%s is %q; it must be numbers between 0 and 1 with commas between", flag, list)
		}
		if slices.Contains(out, v) {
			return nil, usagef("--%s names %v twice", flag, v)
		}
		out = append(out, v)
	}
	return out, nil
}

// loadPreprocess reads the preprocessing at path and keeps it as it is, to be
// stored with what is fitted.
func (r *reading) loadPreprocess(path string) error {
	raw, err := regular.ReadFile(path)
	if err != nil {
		return err
	}
	if err := r.setPreprocess(raw); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (r *reading) setPreprocess(raw json.RawMessage) error {
	p, err := preprocess.Parse(raw)
	if err != nil {
		return fmt.Errorf("not a preprocessing file with the keys of Hugging Face's preprocessor_config.json: %w", err)
	}
	r.options.Preprocess, r.raw = p, raw
	return nil
}
