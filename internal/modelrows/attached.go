package modelrows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// Options names a .attach file and configures how rows are read for it.
type Options struct {
	ReadOptions
	Bundle string // path of the .attach file
	Model  string // path of the model, if it has moved
	// FromFeatures reports whether rows are precomputed features. Weights is the path of the
	// last layer, which computes logits if the file of features has none.
	FromFeatures bool
	Weights      string
	// Groupless allows rows without groups although intervals are calibrated by group.
	Groupless bool
	// KeepReasons keeps the reasons of each row for Rows.Schema.Take.
	KeepReasons bool
}

// Attached is an opened .attach file and a reader of rows for it.
type Attached struct {
	Reader
	Bundle  *attach.Bundle
	Net     *featurize.Attached // computes features; set by OpenNetwork
	Classes []int               // labels of the rows to read, or nil for all
	options Options
	run     featurize.Options
}

// Open opens the .attach file in o. run configures its model. The function check, which may
// be nil, returns an error if the options do not apply to the file.
func Open(o Options, run featurize.Options, check func(*attach.Bundle) error, note Note) (*Attached, error) {
	m := &Attached{Classes: o.KeepClasses, options: o, run: run}
	if err := m.Begin(o.ReadOptions, note); err != nil {
		return nil, err
	}
	var err error
	if m.Bundle, err = attach.Open(o.Bundle); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(m.Bundle); err != nil {
			return nil, err
		}
	}
	if err := m.renameClasses(); err != nil {
		return nil, err
	}
	if m.Bundle.Calibration.Groups != nil && o.Groups == "" && !o.Groupless {
		return nil, Usagef("%s was calibrated by group, so each row needs its group; set Options.Groups", o.Bundle)
	}
	return m, nil
}

// renameClasses replaces the class names of the .attach file by the names in the options.
// If the options contain no names, labels are read by the names in the file.
func (m *Attached) renameClasses() error {
	base := &m.Bundle.Base
	if err := m.CheckClassNames(base.Outputs); err != nil {
		return err
	}
	if m.Inputs.Classes == nil {
		m.Inputs.Classes = base.Classes
	}
	base.Classes = m.Inputs.Classes
	return nil
}

// FromFeatures reports whether rows are precomputed features, so that no model runs.
func (m *Attached) FromFeatures() bool { return m.options.FromFeatures || m.Bundle.Base.SHA256 == "" }

// OpenNetwork opens the model that computes features, unless it is open or rows are features.
func (m *Attached) OpenNetwork(ctx context.Context) error {
	b := m.Bundle
	if m.Net != nil || m.FromFeatures() {
		return nil
	}
	var err error
	if m.Net, err = featurize.OpenFor(ctx, b, m.options.Model, m.run); err != nil {
		return err
	}
	m.configureFor(m.Net.Model)
	m.hint, m.Columns = "pass Options.FromFeatures to predict from them", b.Base.Columns
	m.Inputs.Expect(b)
	m.Inputs.Preprocess = cmp.Or(m.Inputs.Preprocess, m.Net.Preprocess)
	return nil
}

// OpenRows opens the rows at x that are in slice. Labels or targets come from y or, if y is
// empty, from x.
func (m *Attached) OpenRows(ctx context.Context, x, y string, slice inputs.Slice) (*Rows, error) {
	if m.FromFeatures() {
		return m.Precomputed(ctx, x, y, slice)
	}
	if err := m.OpenNetwork(ctx); err != nil {
		return nil, err
	}
	set, err := m.OpenSet(ctx, x, y, slice, m.Classes)
	if err != nil {
		return nil, err
	}
	blocks := set.Blocks(ctx, set.BlockRows())
	if m.Bundle.Profile == nil {
		return m.RowsOf(ctx, set, blocks, nil), nil
	}
	checker := m.Bundle.Profile.NewChecker(m.options.KeepReasons)
	r := m.RowsOf(ctx, set, checker.Observe(blocks), checker.NewCategory)
	r.Schema = checker
	return r, nil
}

// RowsOf returns the rows of set, without Rows.Schema. It runs the model on blocks, which must be
// the blocks of set. The function newCategory explains an error of the model. It returns a new
// category among the rows that were read, and its row. It is nil if the .attach file has no
// profile.
func (m *Attached) RowsOf(ctx context.Context, set *inputs.Set, blocks iter.Seq2[ood.InputBlock, error], newCategory func() (schema.Reason, int, bool)) *Rows {
	var readFailed atomic.Bool
	batches := m.Net.Rows(ctx, reportError(blocks, &readFailed))
	if newCategory != nil {
		batches = explainFailure(batches, set, newCategory, &readFailed)
	}
	return &Rows{
		N: set.Len(),
		Name: func(row int) any {
			if file := set.File(row); file != "" {
				return file
			}
			return set.Row(row)
		},
		batches: batches,
		Known:   knownOf(set, m.Classes, m.Bundle.Base),
		Set:     set,
	}
}

// reportError returns the same blocks, and sets failed before it yields an error.
func reportError(blocks iter.Seq2[ood.InputBlock, error], failed *atomic.Bool) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range blocks {
			if err != nil {
				failed.Store(true)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// explainFailure adds a new category to an error of the model, because some models fail on a
// category that they were not trained on. It leaves other errors as they are: those of the
// context, and those of reading rows, after which readFailed is true.
func explainFailure(batches iter.Seq2[attach.Rows, error], set *inputs.Set, newCategory func() (schema.Reason, int, bool), readFailed *atomic.Bool) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for b, err := range batches {
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !readFailed.Load() {
				if reason, row, ok := newCategory(); ok {
					err = fmt.Errorf("%w; %s: %v", err, set.Name(row), reason)
				}
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// FeatureBlockRows is the number of rows in a block of precomputed features. The last block may
// be shorter.
const FeatureBlockRows = 1024

// Precomputed opens the features at x that are in slice. Labels or targets come from y or,
// if y is empty, from x.
func (m *Attached) Precomputed(ctx context.Context, x, y string, slice inputs.Slice) (*Rows, error) {
	base := m.Bundle.Base
	want := inputs.Widths{Says: "the fit used", Widths: batchparts.Widths{"features": base.Width, "logits": base.Outputs}}
	for i, l := range base.Layers {
		want.Widths[batchparts.Layer(i)] = l.Width
	}
	if len(base.Layers) == 0 {
		want.Layerless = true
	}
	last, err := LoadWeights(m.options.Weights, want)
	if err != nil {
		return nil, err
	}
	if err := checkFeatureName(x); err != nil {
		return nil, err
	}
	n, blocks, err := inputs.FeatureBlocks(x, slice, FeatureBlockRows, want, layerWidths(m.options.Weights, last))
	if err != nil {
		return nil, err
	}
	groups, err := FeatureGroups(ctx, x, m.Inputs.Groups, slice, n)
	if err != nil {
		return nil, err
	}
	begin, end, err := slice.Of(n)
	r := &Rows{
		N:     end - begin,
		Known: knownOfFeatures(ctx, x, y, base, slice, n, groups),
		Name:  func(row int) any { return begin + row },
		batches: func(yield func(attach.Rows, error) bool) {
			first := true
			for b, err := range blocks {
				if first && err == nil {
					err = checkLayer(x, m.options.Weights, last, b, m.note)
				}
				if first = false; !yield(attach.Rows{Batch: withLogits(b, last)}, err) {
					return
				}
			}
		},
	}
	if known := r.Known.withTarget; len(known) > 0 && !m.Unlabelled {
		m.LeaveOut(cmp.Or(y, x), r.N-len(known), r.N)
		r.Select(known)
	}
	return r, err
}

// Rows holds the rows to predict, audit or evaluate with a .attach file.
type Rows struct {
	N     int
	Name  func(row int) any // the file or number of a row
	Known Known
	Set   *inputs.Set // nil for precomputed features
	// Schema compares the inputs of the rows with those of the fit rows while Blocks reads
	// them. It is nil for precomputed features and for a .attach file without a profile.
	Schema  *schema.Checker
	batches iter.Seq2[attach.Rows, error]
}

// Blocks yields the rows in batches, with their groups. If truth is true, it adds labels
// and targets.
func (r *Rows) Blocks(truth bool) iter.Seq2[attach.Rows, error] {
	if !truth {
		return inputs.Beside{Groups: r.Known.Groups}.With(r.batches)
	}
	return r.Known.With(r.batches)
}

// Select removes all rows that are not in list. The list must be ascending.
func (r *Rows) Select(list []int) {
	name, batches := r.Name, r.batches
	r.N, r.Known = len(list), r.Known.selectRows(list)
	r.Name = func(row int) any { return name(list[row]) }
	r.batches = func(yield func(attach.Rows, error) bool) {
		done, next := 0, 0
		for b, err := range batches {
			var picked []int
			for ; err == nil && next < len(list) && list[next] < done+b.Len(); next++ {
				picked = append(picked, list[next]-done)
			}
			if err == nil {
				done += b.Len()
				b.Batch = b.Batch.Select(picked)
			}
			if (err != nil || len(picked) > 0) && !yield(b, err) {
				return
			}
		}
	}
}

// Known holds the labels, targets and groups of rows. Labels, Targets, Groups and Names each
// have one entry for each row, or are empty.
type Known struct {
	inputs.Beside          // a label is a class of the model, -1 for another class, or inputs.Unlabelled
	Names         []string // names of the labels
	DropReason    error    // why a label or target is unknown or left out, or nil
	withTarget    []int    // rows with a known target, if some are unknown
}

// knownOf returns the labels, targets and groups of a set. It leaves out labels or targets
// that do not fit the model. picked is ReadOptions.KeepClasses: the set has replaced each label
// by its index in picked. If picked does not have one label for each class of the model,
// knownOf restores the original labels.
func knownOf(set *inputs.Set, picked []int, base attach.Base) Known {
	k := Known{Beside: inputs.Beside{Labels: slices.Clone(set.Labels), Targets: set.Targets, Groups: set.Groups}}
	if folders := set.ClassNames; folders != nil {
		k.numberByName(folders, base)
		return k
	}
	if len(picked) > 0 && len(picked) != inputs.ClassesOf(base.Outputs) {
		for i := range k.Labels {
			k.Labels[i] = picked[k.Labels[i]]
		}
	}
	return k.checked(base)
}

// numberByName numbers labels by the names of their folders. The label of a folder that is
// not a class becomes -1, and DropReason names such a folder. If the classes have no names,
// labels keep the order of the folders. They are then left out unless each class has a folder,
// because the number of a folder depends on the others.
func (k *Known) numberByName(folders []string, base attach.Base) {
	classes := base.Classes
	if want := inputs.ClassesOf(base.Outputs); len(classes) == 0 && len(folders) != want {
		k.Labels, k.DropReason = nil, fmt.Errorf("labels are in %s, but the model has %s without names; give the names of the classes", rows.Count(len(folders), "folder"), rows.Count(want, "class"))
		return
	}
	labels := make([]int, len(k.Labels))
	for i, label := range k.Labels {
		k.Names = append(k.Names, folders[label])
		if labels[i] = label; len(classes) > 0 {
			labels[i] = slices.Index(classes, folders[label])
		}
		if labels[i] < 0 {
			k.DropReason = fmt.Errorf("folder %.100q is none of the classes fitted on: %s", folders[label], display.List(classes, 10))
		}
	}
	k.Labels = labels
}

// knownOfFeatures returns the labels, targets and groups of the slice of n precomputed
// rows. Labels and targets come from the archive x, or from y if it is not empty.
func knownOfFeatures(ctx context.Context, x, y string, base attach.Base, slice inputs.Slice, n int, groups []string) Known {
	k := Known{Beside: inputs.Beside{Groups: groups}}
	t, err := FeatureTargets(ctx, x, y, base, slice, n)
	k.Targets, k.Labels = t.Values, t.Labels
	if known := t.Known(); len(known) < t.Values.Rows {
		if k.withTarget = known; len(known) == 0 {
			err = inputs.ErrNoTarget
		}
	}
	if base.Task != attach.Regression && y == "" {
		k.Labels, err = inputs.FeatureLabels(x, slice)
	}
	k = k.checked(base)
	k.DropReason = cmp.Or(err, k.DropReason)
	return k
}

// checked returns k without labels or targets that do not fit the model, as decided by
// inputs.Beside.Sure, and with the names of labels.
func (k Known) checked(base attach.Base) Known {
	k.DropReason = k.Sure(base)
	if k.Labels == nil || base.Classes == nil {
		return k
	}
	k.Names = make([]string, len(k.Labels))
	for i, label := range k.Labels {
		if label >= 0 && label < len(base.Classes) {
			k.Names[i] = base.Classes[label]
		}
	}
	return k
}

// selectRows returns the entries of the rows in list.
func (k Known) selectRows(list []int) Known {
	k.Labels, k.Names, k.Groups, k.withTarget = rows.Pick(k.Labels, list), rows.Pick(k.Names, list), rows.Pick(k.Groups, list), nil
	if k.Targets.Rows > 0 {
		k.Targets = rows.Select(k.Targets, list)
	}
	return k
}
