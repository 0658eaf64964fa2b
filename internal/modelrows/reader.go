package modelrows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/preprocess"
)

// ReadOptions configures how rows are read.
type ReadOptions struct {
	Target, Text, Ignore  []string // names of columns
	Groups                string   // name of the column or array with the groups
	FolderLabels, SkipBad bool
	KeepClasses           []int  // labels of the rows to read, or nil for all
	Preprocess            string // path of a preprocessing file
	ClassNames            string // path of a file of names, or names separated by commas
}

// Note reports something that users should know, in one line.
type Note func(format string, args ...any)

// Reader reads rows as inputs of a model. Begin must be called first.
type Reader struct {
	// Inputs contains the options for reading inputs. They come from ReadOptions. The model
	// or the .attach file adds options that depend on it, and the first rows add names of
	// columns.
	Inputs inputs.Options
	Raw    json.RawMessage  // content of the preprocessing file
	Model  *featurize.Model // the model that reads the rows, or nil
	// Columns names the inputs of the first table that was read, or of the table of the
	// fit. It is nil if inputs have no names.
	Columns []string
	// Unlabelled reports whether rows with an unknown target are kept. Otherwise they are
	// left out.
	Unlabelled     bool
	LeftOut        string // says how many rows were left out, or ""
	ReportsLeftOut bool   // whether the caller reports LeftOut, so that no note is printed

	readOptions ReadOptions
	note        Note
	truncated   int    // number of texts that were reported as too long
	hint        string // advice for an error about features that were passed as inputs
}

// Begin reads the class names and the preprocessing file. It keeps the content of the
// preprocessing file in Raw, because a .attach file stores it.
func (r *Reader) Begin(options ReadOptions, note Note) error {
	r.readOptions, r.note = options, note
	r.Inputs = inputs.Options{Targets: options.Target, Text: options.Text, Ignore: options.Ignore, Groups: options.Groups, Labels: options.FolderLabels, SkipBad: options.SkipBad}
	err := r.readClassNames()
	if err != nil || options.Preprocess == "" {
		return err
	}
	if r.Raw, err = regularfile.ReadFile(options.Preprocess); err != nil {
		return err
	}
	if r.Inputs.Preprocess, err = preprocess.Parse(r.Raw); err != nil {
		return fmt.Errorf("%s: not a preprocessing file with the keys of Hugging Face's preprocessor_config.json: %w", options.Preprocess, err)
	}
	return nil
}

// Quiet suppresses notes until restore is called.
func (r *Reader) Quiet() (restore func()) {
	note := r.note
	r.note = func(string, ...any) {}
	return func() { r.note = note }
}

// OpenModel opens the model that reads the rows, and uses the preprocessing and the class
// names in its folder. CloseModel closes the model.
func (r *Reader) OpenModel(ctx context.Context, path string, o featurize.Options) error {
	model, err := featurize.Open(ctx, path, o)
	if err != nil {
		return err
	}
	r.configureFor(model)
	return r.useFolder(model.Info())
}

// useFolder uses the preprocessing and the class names in the model's folder, unless an
// option overrides them.
func (r *Reader) useFolder(info featurize.Info) error {
	for _, reason := range info.Unused {
		r.note("note: %s: not used: %s", info.Folder, reason)
	}
	if r.Inputs.Classes == nil {
		r.Inputs.Classes = info.Classes
	}
	if r.readOptions.Preprocess != "" || info.Preprocess == nil {
		return nil
	}
	r.Raw = info.Preprocess
	var err error
	r.Inputs.Preprocess, err = preprocess.Parse(r.Raw)
	return err
}

// CloseModel closes the model, if one is open.
func (r *Reader) CloseModel() {
	if r.Model != nil {
		r.Model.Close()
	}
}

// configureFor sets the options of inputs that depend on the model.
func (r *Reader) configureFor(model *featurize.Model) {
	info := model.Info()
	r.Model, r.Inputs.Layout, r.Inputs.Outputs, r.Inputs.HasText = model, info.Layout, info.OutputsWidth, info.Text != nil
	r.Inputs.Takes = inputs.TakesOf(model.Base(info.Task).Inputs)
}

// CheckClasses returns an error if ReadOptions.KeepClasses is set for a regressor, or if it has
// more or fewer labels than the model has classes. Label i of ReadOptions.KeepClasses is for
// class i, so each class needs one.
func (r *Reader) CheckClasses(task attach.Task) error {
	classes, picked := inputs.ClassesOf(r.Inputs.Outputs), len(r.readOptions.KeepClasses)
	if picked > 0 && task == attach.Regression {
		return Usagef("Options.KeepClasses does not apply to a regressor, which has no classes; leave it out")
	}
	if picked == 0 || classes == 0 || picked == classes {
		return nil
	}
	return Usagef("Options.KeepClasses names %s, but the model has %s; name one label for each class, in the order of the classes", rows.Count(picked, "label"), rows.Count(classes, "class"))
}

// OpenSet opens the inputs at x for the open model, and returns the rows in slice. If y is
// not empty, labels or targets come from y. If classes is not empty, only rows with these
// labels are returned, and each label is replaced by its index in classes.
func (r *Reader) OpenSet(ctx context.Context, x, y string, slice inputs.Slice, classes []int) (*inputs.Set, error) {
	o := r.Inputs
	if o.Columns = r.Columns; r.Columns != nil {
		o.Ignore = nil // columns are selected by name
	}
	set, err := inputs.Open(ctx, x, o)
	if errors.Is(err, npy.ErrNoEntry) && inputs.HoldsAny(x, "features", "feat_list") {
		return nil, fmt.Errorf("%s: contains features and not the model's inputs (x or images); %s", x, cmp.Or(r.hint, "leave out MODEL.onnx to use them"))
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.Raw != nil && r.readOptions.Preprocess == "" {
		// The preprocessing in the model's folder is for images, but these rows are not
		// images.
		r.Raw, r.Inputs.Preprocess, o.Preprocess = nil, nil, nil
		set, err = inputs.Open(ctx, x, o)
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.readOptions.Preprocess != "" {
		err = fmt.Errorf("%w, or leave out Options.Preprocess", err)
	}
	if err != nil && inputs.IsTable(x) {
		for _, reason := range r.Model.Info().Unused {
			if strings.HasPrefix(reason, "tokenizer") {
				return nil, fmt.Errorf("%w; texts cannot be read without a tokenizer: %s", err, reason)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if err := inputs.Accepts(ctx, set, r.Model.InputShape(), r.Model.Features); err != nil {
		return nil, inputs.InFile(x, err)
	}
	if r.Columns == nil {
		r.Columns = set.Columns
	}
	if r.Inputs.Text == nil {
		r.Inputs.Text = set.Texts
	}
	if names := set.TargetNames; names != nil {
		r.Inputs.Targets = names // names, because in other tables the last column may not be the target
	}
	for _, note := range set.Notes {
		r.note("note: %s: %s", x, note)
	}
	if err := set.Odd; err != nil {
		r.note("note: %s: targets are left out: %v", x, err)
	}
	if n := set.Skipped; n > 0 {
		noun := "image"
		if r.Inputs.Preprocess == nil { // arrays of a WebDataset
			noun = "sample"
		}
		r.note("%s: left out %s that cannot be read", x, rows.Count(n, noun))
	}
	if y != "" {
		if set.ClassNames != nil {
			return nil, Usagef("Options.FolderLabels takes labels from the folders of %s, but %s contains labels too; leave one out", x, y)
		}
		targets, err := inputs.OpenTargets(ctx, y, set.Len(), r.Inputs.Outputs, r.Inputs.Classes)
		if err != nil {
			return nil, err
		}
		if err := set.SetTargets(targets); err != nil {
			return nil, err
		}
	}
	for _, note := range set.CoarseTargets() {
		r.note("note: %s: %s", cmp.Or(y, x), note)
	}
	if set, err = set.Slice(slice); err != nil {
		return nil, fmt.Errorf("%s: %w", x, err)
	}
	if set, err = r.withKnownTargets(set, cmp.Or(y, x)); err != nil {
		return nil, err
	}
	if len(classes) > 0 {
		set, err = set.OfClasses(classes)
	} else {
		err = r.numberLabels(x, set)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x, err)
	}
	return set, nil
}

// withKnownTargets returns the rows of a set with a known target, or all rows if Unlabelled
// is true. If no target is known, it returns an error or, with Unlabelled, all rows without
// targets. Errors contain path, the source of the targets.
func (r *Reader) withKnownTargets(set *inputs.Set, path string) (*inputs.Set, error) {
	known, err := set.Known()
	switch {
	case err != nil && r.Unlabelled:
		return set, set.SetTargets(inputs.Targets{Values: blas32.General{Rows: set.Len()}})
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case r.Unlabelled:
		return set, nil
	}
	r.LeaveOut(path, set.Len()-known.Len(), set.Len())
	return known, nil
}

// LeaveOut sets LeftOut: n of all rows were left out because they have no target at path. It
// reports LeftOut as a note unless ReportsLeftOut is true.
func (r *Reader) LeaveOut(path string, n, all int) {
	if r.LeftOut = ""; n == 0 {
		return
	}
	if r.LeftOut = inputs.LeftOut(n, all); !r.ReportsLeftOut {
		r.note("note: %s: %s", path, r.LeftOut)
	}
}

// numberLabels replaces labels by the indices of the model's outputs, if the model numbers
// its classes differently. If the model has no output for a label and targets are optional,
// all labels are left out.
func (r *Reader) numberLabels(x string, set *inputs.Set) error {
	if set.Labels == nil || set.ClassNames != nil {
		return nil
	}
	numbers := r.Model.Info().ClassNumbers
	if len(numbers) == 0 {
		return nil
	}
	err := set.NumberLabels(numbers)
	if err != nil && r.Inputs.TargetOptional {
		r.note("note: %s: labels are left out: %v", x, err)
		return set.SetTargets(inputs.Targets{Values: blas32.General{Rows: set.Len()}})
	}
	return err
}

// NoteTruncated reports the number of texts that were truncated since the last call,
// because they are longer than the model reads.
func (r *Reader) NoteTruncated(what string) {
	if r.Model == nil {
		return
	}
	cut := r.Model.Truncated() - r.truncated
	if r.truncated += cut; cut > 0 {
		r.note("note: %s: %s longer than the %d tokens that the model reads; the rest of each is ignored", what, rows.Count(cut, "text"), r.Model.Info().Text.MaxTokens)
	}
}
