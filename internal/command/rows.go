package command

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// rowFlags are what flags say of how rows are read.
type rowFlags struct {
	inputs     inputs.Options
	preprocess string // path of a preprocessing file
	names      string // of classes, or a file of them
	classes    []int
}

// reading reads the rows of one command. Its inputs are what flags say, completed by the
// model or M.attach and then by the first rows.
type reading struct {
	rowFlags
	raw    json.RawMessage // what the preprocessing file holds
	stderr io.Writer
	// model is what reads the rows, or nil.
	model     *featurize.Model
	truncated int // texts that were said to be too long
	// columns are the inputs of the first table read, or of the table that heads
	// were fitted on; nil where they have no names.
	columns []string
	// unlabelled keeps rows whose target is unknown; else they are left out.
	unlabelled bool
	leftOut    leftOut
	tellsLeft  bool // with the results, and not on stderr
	// hint says what to do with precomputed features that are given as inputs.
	hint string
}

// rowOptions say how inputs are read; all are those of the command, and textless is when
// the model reads no texts.
func (r *rowFlags) rowOptions(all *table, textless never) table {
	noImages := idle("where no inputs are images in files", func() bool { return !slices.ContainsFunc(all.files(rowFile), mayBeImages) })
	return table{
		{name: "preprocess", to: &r.preprocess, file: otherFile, usage: "FILE: how images are prepared, in the keys of Hugging Face's preprocessor_config.json"},
		{name: "target", to: nameList("target", &r.inputs.Targets), usage: "A,B,…: the column of a table that is the target, or several, by names in the header, or last"},
		{name: "text", to: nameList("text", &r.inputs.Text), usage: "A[,B]: the column of a table that a model with a tokenizer reads, or two that it reads as a pair (default: text, sentence or the only one of text)",
			never: []never{textless}},
		{name: "ignore", to: nameList("ignore", &r.inputs.Ignore), usage: "A,B,…: columns of a table that are neither inputs nor the target"},
		{name: "classes", to: &r.classes, usage: "A,B,…: keep the rows with these labels alone; output i of the model is the i-th of them"},
		{name: "labels", to: &r.inputs.Labels, usage: "take the sub-folder that an image lies in as its label, numbered in sorted order", never: []never{noImages}},
		{name: "skip-bad", to: &r.inputs.SkipBad, usage: "leave out images and shards of a WebDataset that cannot be read, and count or name them", never: []never{noImages}},
	}.under(underRows)
}

// sliceOption takes some rows of what another option names.
func sliceOption(name, of string, to *inputs.Slice, unused ...never) *option {
	return &option{name: name, never: unused, usage: "START:END: of " + of + " take these rows alone, counted as Python does: 0:4000, :100 or -500:",
		to: func(text string) error {
			s, err := inputs.ParseSlice(text)
			if err != nil {
				return fmt.Errorf("--%s is %q; it must be START:END, two whole numbers of which either may be left out", name, text)
			}
			*to = s
			return nil
		}}
}

// nameList reads names of columns with commas between; one with a comma stands in
// quotes.
func nameList(option string, to *[]string) func(string) error {
	return func(list string) error {
		names, err := csv.NewReader(strings.NewReader(list)).Read()
		if err != nil {
			return fmt.Errorf("--%s is %q; it must be names with commas between, in quotes where they hold any: %w", option, list, err)
		}
		*to = names
		return nil
	}
}

// mayBeImages says whether inputs may be images in files.
func mayBeImages(s source) bool {
	ext := strings.ToLower(filepath.Ext(s.path))
	return ext != ".npy" && ext != ".npz" && (ext == ".parquet" || !inputs.IsTable(s.path))
}

// groupsOption says which group rows are of.
func (r *rowFlags) groupsOption(what string, unused ...never) table {
	return table{{name: "groups", to: &r.inputs.Groups, never: unused,
		usage: "NAME: the column of a table, of any text, or the array of an .npz file, of whole numbers, that says each row's group" + what}}
}

// targeted is when --target names the targets that a file is to hold.
func (r *rowFlags) targeted() never {
	return idle("with --target, which names the targets too", func() bool { return r.inputs.Targets != nil })
}

// pickless is when --labels serve nothing but --classes, and there are none.
func (r *rowFlags) pickless(unlabelled func() bool) never {
	return idle("here without --classes, which picks rows by them", func() bool { return len(r.classes) == 0 && unlabelled() })
}

// textless is when the model that is open has no tokenizer.
func (r *reading) textless() never {
	return idle("for a model without a tokenizer", func() bool { return r.model != nil && !r.inputs.HasText })
}

// begin is a step that reads the files that say how rows are read.
func (r *reading) begin(c *cli.Context) error {
	r.stderr = c.App.ErrWriter
	return r.readFiles()
}

// readFiles reads names of classes, and the preprocessing, which it keeps as it is to be
// stored with what is fitted.
func (r *reading) readFiles() error {
	err := r.readClassNames()
	if err != nil || r.preprocess == "" {
		return err
	}
	if r.raw, err = regularfile.ReadFile(r.preprocess); err != nil {
		return err
	}
	if r.inputs.Preprocess, err = preprocess.Parse(r.raw); err != nil {
		return fmt.Errorf("%s: not a preprocessing file with the keys of Hugging Face's preprocessor_config.json: %w", r.preprocess, err)
	}
	return nil
}

// openModel opens the model that reads the rows, until closeModel is called.
func (r *reading) openModel(ctx context.Context, path string, o featurize.Options) error {
	model, err := featurize.Open(ctx, path, o)
	if err != nil {
		return err
	}
	r.fitTo(model)
	return r.takeFolder(model.Info())
}

// takeFolder takes what lies beside the model where no option says otherwise.
func (r *reading) takeFolder(info featurize.Info) error {
	for _, why := range info.Unused {
		printf(r.stderr, "note: %s: not used: %s\n", info.Folder, why)
	}
	if r.inputs.Classes == nil {
		r.inputs.Classes = info.Classes
	}
	if r.preprocess != "" || info.Preprocess == nil {
		return nil
	}
	r.raw = info.Preprocess
	var err error
	r.inputs.Preprocess, err = preprocess.Parse(r.raw)
	return err
}

func (r *reading) closeModel() {
	if r.model != nil {
		r.model.Close()
	}
}

// fitTo reads rows the way the model takes them.
func (r *reading) fitTo(model *featurize.Model) {
	info := model.Info()
	r.model, r.inputs.Layout, r.inputs.Outputs, r.inputs.HasText = model, info.Layout, info.OutputsWidth, info.Text != nil
	r.inputs.Takes = inputs.TakesOf(model.Base(info.Task).Inputs)
}

// checkClasses refuses --classes of a model without classes, and those that
// would number labels otherwise than the model's outputs are.
func (r *reading) checkClasses(task attach.Task) error {
	classes, picked := inputs.ClassesOf(r.inputs.Outputs), len(r.classes)
	if picked > 0 && task == attach.Regression {
		return usagef("--classes means nothing for a regressor, which has no classes; leave it out")
	}
	if picked == 0 || classes == 0 || picked == classes {
		return nil
	}
	return usagef("--classes names %s, and the model has %s; name the label of each, in their order", rows.Count(picked, "label"), rows.Count(classes, "class"))
}

// openSet opens the inputs at x and, where y is not empty, their labels or targets
// at y, and cuts them to the rows asked for. Of these such with labels outside
// classes are left out and the others renumbered, where classes is not empty.
func (r *reading) openSet(ctx context.Context, x, y string, of inputs.Slice, classes []int) (*inputs.Set, error) {
	o := r.inputs
	if o.Columns = r.columns; r.columns != nil {
		o.Ignore = nil // the columns that the inputs are among
	}
	set, err := inputs.Open(ctx, x, o)
	if errors.Is(err, npy.ErrNoEntry) && inputs.HoldsAny(x, "features", "feat_list") {
		return nil, fmt.Errorf("%s: it holds features and not the model's inputs (x or images); %s", x, cmp.Or(r.hint, "leave out MODEL.onnx to go on from them"))
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.raw != nil && r.preprocess == "" {
		// What lies beside the model is for images, which these are not.
		r.raw, r.inputs.Preprocess, o.Preprocess = nil, nil, nil
		set, err = inputs.Open(ctx, x, o)
	}
	if errors.Is(err, inputs.ErrNoPixels) && r.preprocess != "" {
		err = fmt.Errorf("%w, or leave out --preprocess", err)
	}
	if err != nil && r.model != nil && inputs.IsTable(x) {
		for _, why := range r.model.Info().Unused {
			if strings.HasPrefix(why, "tokenizer") {
				return nil, fmt.Errorf("%w; texts are not read, for want of a tokenizer: %s", err, why)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if r.model != nil {
		err = set.CheckImages(r.model.InputShape())
	}
	if err == nil {
		err = r.checkShape(ctx, set)
	}
	if err != nil {
		return nil, inputs.InFile(x, err)
	}
	if r.columns == nil {
		r.columns = set.Columns
	}
	if r.inputs.Text == nil {
		r.inputs.Text = set.Texts
	}
	if names := set.TargetNames; names != nil {
		r.inputs.Targets = names // in other tables the last may stand elsewhere
	}
	for _, note := range set.Notes {
		printf(r.stderr, "note: %s: %s\n", x, note)
	}
	if err := set.Odd; err != nil {
		printf(r.stderr, "note: %s: its targets are left out: %v\n", x, err)
	}
	if n := set.Skipped; n > 0 {
		what := "image"
		if r.inputs.Preprocess == nil { // arrays of a WebDataset
			what = "sample"
		}
		printf(r.stderr, "%s: left out %s that cannot be read\n", x, rows.Count(n, what))
	}
	if y != "" {
		if set.ClassNames != nil {
			return nil, usagef("--labels takes labels from the folders of %s, and %s holds others; leave one out", x, y)
		}
		targets, err := inputs.OpenTargets(ctx, y, set.Len(), r.inputs.Outputs, r.inputs.Classes)
		if err != nil {
			return nil, err
		}
		if err := set.SetTargets(targets); err != nil {
			return nil, err
		}
	}
	for _, note := range set.CoarseTargets() {
		printf(r.stderr, "note: %s: %s\n", cmp.Or(y, x), note)
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

// leftOut counts rows that are left out because their target is unknown.
type leftOut struct{ rows, of int }

func (l leftOut) String() string {
	return inputs.LeftOut(l.rows, l.of)
}

// known are the rows of a set whose targets, which come from path, are known, or all of
// them if no command needs these.
func (r *reading) known(set *inputs.Set, path string) (*inputs.Set, error) {
	known, err := set.Known()
	switch {
	case err != nil && r.unlabelled:
		return set, set.SetTargets(inputs.Targets{Values: blas32.General{Rows: set.Len()}})
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case r.unlabelled:
		return set, nil
	}
	r.leaveOut(path, set.Len()-known.Len(), set.Len())
	return known, nil
}

// leaveOut notes how many rows of some have no target at path.
func (r *reading) leaveOut(path string, n, of int) {
	if r.leftOut = (leftOut{n, of}); n > 0 && !r.tellsLeft {
		printf(r.stderr, "note: %s: %v\n", path, r.leftOut)
	}
}

// numberLabels numbers labels as the outputs of a model are whose classes have
// numbers of their own.
func (r *reading) numberLabels(x string, set *inputs.Set) error {
	if r.model == nil || set.Labels == nil || set.ClassNames != nil {
		return nil
	}
	numbers := r.model.Info().ClassNumbers
	if len(numbers) == 0 {
		return nil
	}
	err := set.NumberLabels(numbers)
	if err != nil && r.inputs.TargetOptional {
		printf(r.stderr, "note: %s: its labels are left out: %v\n", x, err)
		return set.SetTargets(inputs.Targets{Values: blas32.General{Rows: set.Len()}})
	}
	return err
}

// checkShape refuses rows that the model does not take before memory is taken
// for any: it is handed none of them.
func (r *reading) checkShape(ctx context.Context, set *inputs.Set) error {
	if r.model == nil {
		return nil
	}
	return inputs.Accepts(ctx, set, r.model.Features)
}

// features runs the model on the set and returns features, logits, labels and
// the inputs themselves beside the model.
func (r *reading) features(ctx context.Context, what string, set *inputs.Set) (ood.Batch, error) {
	p := newProgress(r.stderr, what)
	defer p.end()
	b, err := r.model.All(ctx, set.Blocks(ctx, set.BlockRows()), set.Len(), func(done int) { p.set(done, set.Len()) })
	if err != nil {
		return ood.Batch{}, inputs.InFile(what, err)
	}
	r.noteTruncated(what)
	b.Labels, b.Inputs, b.Network = set.Labels, set, r.model.Network()
	return b, nil
}

// noteTruncated says how many texts, since it last did, were longer than the model
// reads.
func (r *reading) noteTruncated(what string) {
	if r.model == nil {
		return
	}
	cut := r.model.Truncated() - r.truncated
	if r.truncated += cut; cut > 0 {
		printf(r.stderr, "note: %s: %s longer than the %d tokens that the model reads; what is beyond these is left out\n", what, rows.Count(cut, "text"), r.model.Info().Text.MaxTokens)
	}
}
