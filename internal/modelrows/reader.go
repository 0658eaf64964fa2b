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

// How says how rows are read, as plain data.
type How struct {
	Target, Text, Ignore []string // names of columns
	Groups               string   // the column, or the array
	Labels, SkipBad      bool
	Classes              []int  // labels of the rows that are read, or nil for all
	Preprocess           string // path of a preprocessing file
	ClassNames           string // path of a file of names, or names with commas between
}

// Note tells people what is to be known, in a line.
type Note func(format string, args ...any)

// Reader reads rows as a network takes them, once it began.
type Reader struct {
	// Inputs are what How says, completed by the network or the bundle and then by the
	// first rows.
	Inputs inputs.Options
	Raw    json.RawMessage  // what the preprocessing file holds
	Model  *featurize.Model // what reads the rows, or nil
	// Columns are the inputs of the first table read, or of the table that heads
	// were fitted on; nil where they have no names.
	Columns []string
	// Unlabelled keeps rows whose target is unknown; else they are left out.
	Unlabelled bool
	LeftOut    string // says how many were, or ""
	TellsLeft  bool   // it is told with the results, and not in a note

	how       How
	note      Note
	truncated int    // texts that were said to be too long
	hint      string // what to do with features that are given as inputs
}

// Begin reads names of classes, and the preprocessing, which it keeps as it is to be
// stored with what is fitted.
func (r *Reader) Begin(how How, note Note) error {
	r.how, r.note = how, note
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

// Quiet leaves out notes until loud is called.
func (r *Reader) Quiet() (loud func()) {
	note := r.note
	r.note = func(string, ...any) {}
	return func() { r.note = note }
}

// OpenModel opens the model that reads the rows, until CloseModel is called.
func (r *Reader) OpenModel(ctx context.Context, path string, o featurize.Options) error {
	model, err := featurize.Open(ctx, path, o)
	if err != nil {
		return err
	}
	r.fitTo(model)
	return r.takeFolder(model.Info())
}

// takeFolder takes what lies beside the model where no option says otherwise.
func (r *Reader) takeFolder(info featurize.Info) error {
	for _, why := range info.Unused {
		r.note("note: %s: not used: %s", info.Folder, why)
	}
	if r.Inputs.Classes == nil {
		r.Inputs.Classes = info.Classes
	}
	if r.how.Preprocess != "" || info.Preprocess == nil {
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

// fitTo reads rows the way the model takes them.
func (r *Reader) fitTo(model *featurize.Model) {
	info := model.Info()
	r.Model, r.Inputs.Layout, r.Inputs.Outputs, r.Inputs.HasText = model, info.Layout, info.OutputsWidth, info.Text != nil
	r.Inputs.Takes = inputs.TakesOf(model.Base(info.Task).Inputs)
}

// CheckClasses refuses Classes of a model without classes, and those that
// would number labels otherwise than the model's outputs are.
func (r *Reader) CheckClasses(task attach.Task) error {
	classes, picked := inputs.ClassesOf(r.Inputs.Outputs), len(r.how.Classes)
	if picked > 0 && task == attach.Regression {
		return Usagef("Options.Classes means nothing for a regressor, which has no classes; leave it out")
	}
	if picked == 0 || classes == 0 || picked == classes {
		return nil
	}
	return Usagef("Options.Classes names %s, and the model has %s; name the label of each, in their order", rows.Count(picked, "label"), rows.Count(classes, "class"))
}

// OpenSet opens, for the model that is open, the inputs at x and, where y is not empty,
// their labels or targets at y, and cuts them to the rows asked for. Of these such with
// labels outside classes are left out and the others renumbered, where classes is not empty.
func (r *Reader) OpenSet(ctx context.Context, x, y string, of inputs.Slice, classes []int) (*inputs.Set, error) {
	o := r.Inputs
	if o.Columns = r.Columns; r.Columns != nil {
		o.Ignore = nil // the columns that the inputs are among
	}
	set, err := inputs.Open(ctx, x, o)
	if errors.Is(err, npy.ErrNoEntry) && inputs.HoldsAny(x, "features", "feat_list") {
		return nil, fmt.Errorf("%s: it holds features and not the model's inputs (x or images); %s", x, cmp.Or(r.hint, "leave out MODEL.onnx to go on from them"))
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.Raw != nil && r.how.Preprocess == "" {
		// What lies beside the model is for images, which these are not.
		r.Raw, r.Inputs.Preprocess, o.Preprocess = nil, nil, nil
		set, err = inputs.Open(ctx, x, o)
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.how.Preprocess != "" {
		err = fmt.Errorf("%w, or leave out Options.Preprocess", err)
	}
	if err != nil && inputs.IsTable(x) {
		for _, why := range r.Model.Info().Unused {
			if strings.HasPrefix(why, "tokenizer") {
				return nil, fmt.Errorf("%w; texts are not read, for want of a tokenizer: %s", err, why)
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
		r.Inputs.Targets = names // in other tables the last may stand elsewhere
	}
	for _, note := range set.Notes {
		r.note("note: %s: %s", x, note)
	}
	if err := set.Odd; err != nil {
		r.note("note: %s: its targets are left out: %v", x, err)
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
			return nil, Usagef("Options.Labels takes labels from the folders of %s, and %s holds others; leave one out", x, y)
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
	if set, err = set.Slice(of); err != nil {
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

// known are the rows of a set whose targets, which come from path, are known, or all of
// them if no command needs these.
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

// LeaveOut notes how many rows of some have no target at path.
func (r *Reader) LeaveOut(path string, n, of int) {
	if r.LeftOut = ""; n == 0 {
		return
	}
	if r.LeftOut = inputs.LeftOut(n, of); !r.TellsLeft {
		r.note("note: %s: %s", path, r.LeftOut)
	}
}

// numberLabels numbers labels as the outputs of a model are whose classes have
// numbers of their own.
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
		r.note("note: %s: its labels are left out: %v", x, err)
		return set.SetTargets(inputs.Targets{Values: blas32.General{Rows: set.Len()}})
	}
	return err
}

// NoteTruncated says how many texts, since it last did, were longer than the model
// reads.
func (r *Reader) NoteTruncated(what string) {
	if r.Model == nil {
		return
	}
	cut := r.Model.Truncated() - r.truncated
	if r.truncated += cut; cut > 0 {
		r.note("note: %s: %s longer than the %d tokens that the model reads; what is beyond these is left out", what, rows.Count(cut, "text"), r.Model.Info().Text.MaxTokens)
	}
}
