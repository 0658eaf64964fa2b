package modelrows

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// Options say which bundle rows are read for, and how, as plain data.
type Options struct {
	How
	Bundle string // path of M.attach
	Model  string // path of its network, where that has moved
	// Features says that rows are features, and Weights is the path of the last layer, which
	// makes logits of them.
	Features bool
	Weights  string
	// Groupless lets rows come without the groups that intervals are calibrated by.
	Groupless bool
}

// Attached is a bundle, and what reads rows for it.
type Attached struct {
	Reader
	Bundle  *attach.Bundle
	Net     *featurize.Attached // what makes features of rows, once OpenNetwork opened it
	Classes []int               // labels of the rows that are read, or nil for all
	options Options
	run     featurize.Options
}

// Open opens the bundle of options, whose network is run as run says. Fits, if not nil,
// refuses a bundle for which options mean nothing.
func Open(o Options, run featurize.Options, fits func(*attach.Bundle) error, note Note) (*Attached, error) {
	m := &Attached{Classes: o.Classes, options: o, run: run}
	if err := m.Begin(o.How, note); err != nil {
		return nil, err
	}
	var err error
	if m.Bundle, err = attach.Open(o.Bundle); err != nil {
		return nil, err
	}
	if fits != nil {
		if err := fits(m.Bundle); err != nil {
			return nil, err
		}
	}
	if err := m.renameClasses(); err != nil {
		return nil, err
	}
	if m.Bundle.Calibration.Groups != nil && o.Groups == "" && !o.Groupless {
		return nil, Usagef("%s was calibrated by group; say with Options.Groups where the rows' groups are", o.Bundle)
	}
	return m, nil
}

// renameClasses gives the classes of the bundle the names that are asked for, or
// reads labels by those that they have.
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

// OfFeatures says that rows are features, which no network makes.
func (m *Attached) OfFeatures() bool { return m.options.Features || m.Bundle.Base.SHA256 == "" }

// OpenNetwork opens the network that makes the features, if one does and it is not open yet.
func (m *Attached) OpenNetwork(ctx context.Context) error {
	b := m.Bundle
	if m.Net != nil || m.OfFeatures() {
		return nil
	}
	var err error
	if m.Net, err = featurize.OpenFor(ctx, b, m.options.Model, m.run); err != nil {
		return err
	}
	m.fitTo(m.Net.Model)
	m.hint, m.Columns = "pass Options.Features to predict from them", b.Base.Columns
	m.Inputs.Expect(b)
	m.Inputs.Preprocess = cmp.Or(m.Inputs.Preprocess, m.Net.Preprocess)
	return nil
}

// OpenRows opens some of the rows at x, with their labels or targets at y or, where
// that is empty, there.
func (m *Attached) OpenRows(ctx context.Context, x, y string, of inputs.Slice) (*Rows, error) {
	if m.OfFeatures() {
		return m.Precomputed(ctx, x, y, of)
	}
	if err := m.OpenNetwork(ctx); err != nil {
		return nil, err
	}
	set, err := m.OpenSet(ctx, x, y, of, m.Classes)
	if err != nil {
		return nil, err
	}
	return m.RowsOf(ctx, set, set.Blocks(ctx, set.BlockRows())), nil
}

// RowsOf are the rows that the network makes of blocks, which are those of a set.
func (m *Attached) RowsOf(ctx context.Context, set *inputs.Set, blocks iter.Seq2[ood.InputBlock, error]) *Rows {
	return &Rows{
		N: set.Len(),
		Name: func(row int) any {
			if file := set.File(row); file != "" {
				return file
			}
			return set.Row(row)
		},
		batches: m.Net.Rows(ctx, blocks),
		Known:   knownOf(set, m.Classes, m.Bundle.Base),
		Set:     set,
	}
}

// Precomputed opens some rows of features at x, with their labels or targets as OpenRows.
func (m *Attached) Precomputed(ctx context.Context, x, y string, of inputs.Slice) (*Rows, error) {
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
	n, blocks, err := inputs.FeatureBlocks(x, of, 1024, want, layerWidths(m.options.Weights, last))
	if err != nil {
		return nil, err
	}
	groups, err := FeatureGroups(ctx, x, m.Inputs.Groups, of, n)
	if err != nil {
		return nil, err
	}
	begin, end, err := of.Of(n)
	r := &Rows{
		N:     end - begin,
		Known: knownOfFeatures(ctx, x, y, base, of, n, groups),
		Name:  func(row int) any { return begin + row },
		batches: func(yield func(attach.Rows, error) bool) {
			first := true
			for b, err := range blocks {
				if first && err == nil {
					noteLayer(x, m.options.Weights, last, b, m.note)
				}
				if first = false; !yield(attach.Rows{Batch: withLogits(b, last)}, err) {
					return
				}
			}
		},
	}
	if kept := r.Known.kept; len(kept) > 0 && !m.Unlabelled {
		m.LeaveOut(cmp.Or(y, x), r.N-len(kept), r.N)
		r.only(kept)
	}
	return r, err
}

// Rows are rows that a bundle is used on.
type Rows struct {
	N       int
	Name    func(row int) any // the file or number of a row
	Known   Known
	Set     *inputs.Set // nil of features
	batches iter.Seq2[attach.Rows, error]
}

// Blocks are the batches with their groups and, to compare with, labels and
// targets.
func (r *Rows) Blocks(truth bool) iter.Seq2[attach.Rows, error] {
	if !truth {
		return inputs.Beside{Groups: r.Known.Groups}.With(r.batches)
	}
	return r.Known.With(r.batches)
}

// only leaves out other rows.
func (r *Rows) only(list []int) {
	name, batches := r.Name, r.batches
	r.N, r.Known = len(list), r.Known.only(list)
	r.Name = func(row int) any { return name(list[row]) }
	r.batches = func(yield func(attach.Rows, error) bool) {
		done, next := 0, 0
		for b, err := range batches {
			var some []int
			for ; err == nil && next < len(list) && list[next] < done+b.Len(); next++ {
				some = append(some, list[next]-done)
			}
			if err == nil {
				done += b.Len()
				b.Batch = b.Batch.Select(some)
			}
			if (err != nil || len(some) > 0) && !yield(b, err) {
				return
			}
		}
	}
}

// Known is what rows bring beside what a network reads: each part by row, or nil.
type Known struct {
	inputs.Beside          // labels are classes of the network, or -1 for what it has no class for
	Names         []string // of the labels
	Odd           error    // what is wrong with labels or targets that are left out
	kept          []int    // rows whose target is known, where some are not
}

// knownOf is what the rows of a set bring, as far as it is surely of the
// network's classes or targets. Labels that were picked are numbered by their
// places among all that were.
func knownOf(set *inputs.Set, picked []int, base attach.Base) Known {
	k := Known{Beside: inputs.Beside{Labels: slices.Clone(set.Labels), Targets: set.Targets, Groups: set.Groups}}
	if len(picked) > 0 && len(picked) != inputs.ClassesOf(base.Outputs) {
		for i := range k.Labels {
			k.Labels[i] = picked[k.Labels[i]]
		}
	}
	if folders := set.ClassNames; folders != nil {
		k.byName(folders, base.Classes)
		return k
	}
	return k.sure(base)
}

// byName numbers labels as classes have the names of the labels' folders; where
// classes have no names the folders' order is theirs.
func (k *Known) byName(folders, classes []string) {
	labels := make([]int, len(k.Labels))
	for i, label := range k.Labels {
		k.Names = append(k.Names, folders[label])
		if labels[i] = label; len(classes) > 0 {
			labels[i] = slices.Index(classes, folders[label])
		}
		if labels[i] < 0 {
			k.Odd = fmt.Errorf("folder %.100q is none of the classes fitted on: %s", folders[label], display.List(classes, 10))
		}
	}
	k.Labels = labels
}

// knownOfFeatures is what an archive of n precomputed rows brings to some of them, or y
// where that is not empty.
func knownOfFeatures(ctx context.Context, x, y string, base attach.Base, of inputs.Slice, n int, groups []string) Known {
	k := Known{Beside: inputs.Beside{Groups: groups}}
	t, err := FeatureTargets(ctx, x, y, base, of, n)
	k.Targets, k.Labels = t.Values, t.Labels
	if kept := t.Known(); len(kept) < t.Values.Rows {
		if k.kept = kept; len(kept) == 0 {
			err = inputs.ErrNoTarget
		}
	}
	if base.Task != attach.Regression && y == "" {
		k.Labels, err = inputs.FeatureLabels(x, of)
	}
	k = k.sure(base)
	k.Odd = cmp.Or(err, k.Odd)
	return k
}

// sure leaves out what inputs.Beside.Sure does, and names the labels.
func (k Known) sure(base attach.Base) Known {
	k.Odd = k.Sure(base)
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

// only is what some rows bring.
func (k Known) only(list []int) Known {
	k.Labels, k.Names, k.Groups, k.kept = Picked(k.Labels, list), Picked(k.Names, list), Picked(k.Groups, list), nil
	if k.Targets.Rows > 0 {
		k.Targets = rows.Select(k.Targets, list)
	}
	return k
}

// Picked are some of all, or nil of nothing.
func Picked[T any](all []T, list []int) (some []T) {
	if all == nil {
		return nil
	}
	for _, i := range list {
		some = append(some, all[i])
	}
	return some
}
