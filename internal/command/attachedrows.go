package command

import (
	"cmp"
	"context"
	"iter"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// attachedRows are rows that M.attach is used on: a model's features or
// precomputed ones.
type attachedRows struct {
	n       int
	name    func(row int) any // the file or number of a row
	batches iter.Seq2[attach.Rows, error]
	known   known
	set     *inputs.Set // nil of precomputed rows
}

// blocks are the batches with their groups and, to compare with, labels and
// targets.
func (r *attachedRows) blocks(truth bool) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		done, k := 0, r.known
		for block, err := range r.batches {
			if err == nil {
				end := done + block.Len()
				if k.groups != nil {
					block.Groups = k.groups[done:end]
				}
				if truth && k.labels != nil {
					block.Labels = k.labels[done:end]
				}
				if truth && k.targets.Rows > 0 {
					block.Targets = rows.Slice(k.targets, done, end)
				}
				done = end
			}
			if !yield(block, err) {
				return
			}
		}
	}
}

// ofFeatures says that rows are features, which no network makes.
func (f *attached) ofFeatures() bool { return f.asFeatures || f.bundle.Base.SHA256 == "" }

// openNet opens the network that makes the features, if one does and it is not open yet.
func (f *attached) openNet(ctx context.Context) error {
	b := f.bundle
	if f.net != nil || f.ofFeatures() {
		return nil
	}
	if err := f.keeps(source{cmp.Or(f.moved, b.Base.Path), f.path}); err != nil {
		return err
	}
	var err error
	if f.net, err = featurize.OpenFor(ctx, b, f.moved, f.Options); err != nil {
		return err
	}
	f.fitTo(f.net.Model)
	f.hint, f.columns = "pass --features to predict from them", b.Base.Columns
	if f.inputs.Targets == nil {
		f.inputs.Targets, f.inputs.TargetOptional = b.Base.Targets, true
	}
	if b.Text != nil && f.inputs.Text == nil {
		f.inputs.Text = b.Text.Columns
	}
	f.inputs.Preprocess = cmp.Or(f.inputs.Preprocess, f.net.Preprocess)
	return nil
}

// openRows opens some of the rows at x, with their labels or targets at y or, where
// that is empty, there.
func (f *attached) openRows(ctx context.Context, x, y string, of inputs.Slice) (*attachedRows, error) {
	if f.ofFeatures() {
		return f.precomputed(ctx, x, y, of)
	}
	if err := f.openNet(ctx); err != nil {
		return nil, err
	}
	set, err := f.openSet(ctx, x, y, of, f.classes)
	if err != nil {
		return nil, err
	}
	return &attachedRows{
		n: set.Len(),
		name: func(row int) any {
			if file := set.File(row); file != "" {
				return file
			}
			return set.Row(row)
		},
		batches: f.net.Rows(ctx, set.Blocks(ctx, blockRows(set))),
		known:   knownOf(set, f.classes, f.bundle.Base),
		set:     set,
	}, nil
}

func (f *attached) precomputed(ctx context.Context, x, y string, of inputs.Slice) (*attachedRows, error) {
	base := f.bundle.Base
	want := inputs.Widths{Says: "the bundle was fitted on", Widths: batchparts.Widths{"features": base.Width, "logits": base.Outputs}}
	for i, l := range base.Layers {
		want.Widths[batchparts.Layer(i)] = l.Width
	}
	if len(base.Layers) == 0 {
		want.Layerless = true
	}
	last, err := loadWeights(f.weights, want)
	if err != nil {
		return nil, err
	}
	if err := checkFeatureName(x); err != nil {
		return nil, err
	}
	n, blocks, err := inputs.FeatureBlocks(x, of, 1024, want, layerWidths(f.weights, last))
	if err != nil {
		return nil, err
	}
	groups, err := featureGroups(ctx, x, f.inputs.Groups, of, n)
	if err != nil {
		return nil, err
	}
	begin, end, err := of.Of(n)
	r := &attachedRows{
		n:     end - begin,
		known: knownOfFeatures(ctx, x, y, base, of, n, groups),
		name:  func(row int) any { return begin + row },
		batches: func(yield func(attach.Rows, error) bool) {
			first := true
			for b, err := range blocks {
				if first && err == nil {
					noteLayer(x, f.weights, last, b, f.stderr)
				}
				if first = false; !yield(attach.Rows{Batch: withLogits(b, last)}, err) {
					return
				}
			}
		},
	}
	if kept := r.known.kept; len(kept) > 0 && !f.unlabelled {
		f.leaveOut(cmp.Or(y, x), r.n-len(kept), r.n)
		r.only(kept)
	}
	return r, err
}

// only leaves out other rows.
func (r *attachedRows) only(list []int) {
	name, batches := r.name, r.batches
	r.n, r.known = len(list), r.known.only(list)
	r.name = func(row int) any { return name(list[row]) }
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
