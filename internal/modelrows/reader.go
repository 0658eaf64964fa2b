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
	Target, Text, Ignore []string // names of columns
	Groups               string   // the column or the array
	Labels, SkipBad      bool
	Classes              []int  // labels of the rows to read, or nil for all
	Preprocess           string // path of a preprocessing file
	ClassNames           string // path of a file of names, or names separated by commas
}

// Note reports something that users should know, in one line.
type Note func(format string, args ...any)

// Reader reads rows as inputs of a model. Begin must be called first.
type Reader struct {
	// Inputs are the options of the readers. They come from ReadOptions, are completed by the
	// model or the .attach file, and then by the first rows.
	Inputs inputs.Options
	Raw    json.RawMessage  // content of the preprocessing file
	Model  *featurize.Model // the model that reads the rows, or nil
	// Columns names the inputs of the first table read, or of the table that the heads were
	// fitted on. It is nil if inputs have no names.
	Columns []string
	// Unlabelled keeps rows whose target is unknown. Otherwise they are left out.
	Unlabelled     bool
	LeftOut        string // how many rows were left out, in words, or ""
	ReportsLeftOut bool   // the caller reports LeftOut, so no note is printed

	readOptions ReadOptions
	note        Note
	truncated   int    // number of texts that were reported as too long
	hint        string // how to use features that were passed as inputs
}

// Begin reads the class names and the preprocessing file. Raw keeps the file's content, because
// it is saved with the heads.
func (r *Reader) Begin(how ReadOptions, note Note) error {
	r.readOptions, r.note = how, note
	r.Inputs = inputs.Options{Targets: how.Target, Text: how.Text, Ignore: how.Ignore, Groups: how.Groups, Labels: how.Labels, SkipBad: how.SkipBad}
	err := r.readClassNames()
	if err != nil || how.Preprocess == "" {
		return err
	}
	if r.Raw, err = regularfile.ReadFile(how.Preprocess); err != nil {
		return err
	}
	if r.Inputs.Preprocess, err = preprocess.Parse(r.Raw); err != nil {
		return fmt.Errorf("%s: not a preprocessing file with the keys of Hugging Face's preprocessor_config.json: %w", how.Preprocess, err)
	}
	return nil
}

// Quiet suppresses notes until loud is called.
func (r *Reader) Quiet() (loud func()) {
	note := r.note
	r.note = func(string, ...any) {}
	return func() { r.note = note }
}

// OpenModel opens the model that reads the rows. CloseModel closes it.
func (r *Reader) OpenModel(ctx context.Context, path string, o featurize.Options) error {
	model, err := featurize.Open(ctx, path, o)
	if err != nil {
		return err
	}
	r.configureFor(model)
	return r.useFolder(model.Info())
}

// useFolder uses the preprocessing and class names beside the model, unless an option overrides
// them.
func (r *Reader) useFolder(info featurize.Info) error {
	for _, why := range info.Unused {
		r.note("note: %s: not used: %s", info.Folder, why)
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

// CheckClasses returns an error if ReadOptions.Classes is set for a regressor, or has more or
// fewer labels than the model has classes. Otherwise labels would get other numbers than the
// outputs.
func (r *Reader) CheckClasses(task attach.Task) error {
	classes, picked := inputs.ClassesOf(r.Inputs.Outputs), len(r.readOptions.Classes)
	if picked > 0 && task == attach.Regression {
		return Usagef("Options.Classes does not apply to a regressor, which has no classes; leave it out")
	}
	if picked == 0 || classes == 0 || picked == classes {
		return nil
	}
	return Usagef("Options.Classes names %s, but the model has %s; name one label for each class, in the order of the classes", rows.Count(picked, "label"), rows.Count(classes, "class"))
}

// OpenSet opens inputs at x for the open model, and returns the slice of them. If y is not
// empty, labels or targets come from y. If classes is not empty, rows with other labels are
// left out, and the labels are renumbered in the order of classes.
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
		// The preprocessing beside the model is for images, and these rows are not images.
		r.Raw, r.Inputs.Preprocess, o.Preprocess = nil, nil, nil
		set, err = inputs.Open(ctx, x, o)
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.readOptions.Preprocess != "" {
		err = fmt.Errorf("%w, or leave out Options.Preprocess", err)
	}
	if err != nil && inputs.IsTable(x) {
		for _, why := range r.Model.Info().Unused {
			if strings.HasPrefix(why, "tokenizer") {
				return nil, fmt.Errorf("%w; texts cannot be read without a tokenizer: %s", err, why)
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
		r.Inputs.Targets = names // in other tables the last column may not be the target
	}
	for _, note := range set.Notes {
		r.note("note: %s: %s", x, note)
	}
	if err := set.Odd; err != nil {
		r.note("note: %s: targets are left out: %v", x, err)
	}
	if n := set.Skipped; n > 0 {
		what := "image"
		if r.Inputs.Preprocess == nil { // arrays of a WebDataset
			what = "sample"
		}
		r.note("%s: left out %s that cannot be read", x, rows.Count(n, what))
	}
	if y != "" {
		if set.ClassNames != nil {
			return nil, Usagef("Options.Labels takes labels from the folders of %s, but %s contains labels too; leave one out", x, y)
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
	if set, err = r.known(set, cmp.Or(y, x)); err != nil {
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

// known returns the rows of a set whose target is known, or all rows if Unlabelled is set.
// Errors name path, the source of the targets.
func (r *Reader) known(set *inputs.Set, path string) (*inputs.Set, error) {
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

// LeaveOut prints a note that n of all rows have no target at path.
func (r *Reader) LeaveOut(path string, n, all int) {
	if r.LeftOut = ""; n == 0 {
		return
	}
	if r.LeftOut = inputs.LeftOut(n, all); !r.ReportsLeftOut {
		r.note("note: %s: %s", path, r.LeftOut)
	}
}

// numberLabels converts labels to the indices of the model's outputs, if the model gives its
// classes numbers of their own.
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

// NoteTruncated prints a note with the number of texts, since the last call, that were longer
// than the model reads.
func (r *Reader) NoteTruncated(what string) {
	if r.Model == nil {
		return
	}
	cut := r.Model.Truncated() - r.truncated
	if r.truncated += cut; cut > 0 {
		r.note("note: %s: %s longer than the %d tokens that the model reads; the rest of each is ignored", what, rows.Count(cut, "text"), r.Model.Info().Text.MaxTokens)
	}
}
