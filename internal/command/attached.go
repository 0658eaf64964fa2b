package command

import (
	"cmp"
	"context"
	"io"
	"iter"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// attachedFlags are what flags say of M.attach and of rows that it is used on.
type attachedFlags struct {
	table
	place
	rowFlags
	path, x        string
	rows           inputs.Slice // of x
	moved, weights string       // moved: where the model is now
	asFeatures     bool
	groupless      bool // rows may come without the groups that intervals have
	sets           string
	o              attach.PredictOptions
}

// Reasons why a bundle makes options mean nothing.

func noDetector() never {
	return unfit("for heads without a detector", func(b *attach.Bundle) bool { return b.Detector == nil })
}

func noIntervals() never {
	return unfit("for heads without intervals, such as a classifier's", func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 0 })
}

func noClasses() never {
	return unfit("for a network that answers no classes", func(b *attach.Bundle) bool { return b.Base.Task != attach.Classification })
}

// attachedOptions are those for rows of features, and of how a model is run.
func (f *attachedFlags) attachedOptions() (features, model table) {
	runs := unfit("where the model is run", func(b *attach.Bundle) bool { return b.Base.SHA256 != "" && !f.asFeatures })
	asFeatures := idle("with --features", func() bool { return f.asFeatures })
	alone := unfit("for heads that were fitted on features alone", func(b *attach.Bundle) bool { return b.Base.SHA256 == "" })
	regressor := unfit("for a regressor, which has no classes", func(b *attach.Bundle) bool { return b.Base.Task == attach.Regression })
	model = join(table{
		{name: "model", to: &f.moved, file: otherFile, usage: "MODEL.onnx: the model that M.attach was fitted for, where it has moved since"},
	}, f.rowOptions(&f.table, unfit("for a model without a tokenizer", func(b *attach.Bundle) bool { return b.Text == nil })), f.batchOption(batchStandard)).unless(asFeatures).unless(alone)
	model.of("classes", "labels").unless(regressor)
	model.of("ignore").unless(unfit("where M.attach names the columns that are inputs: others are left alone", func(b *attach.Bundle) bool { return b.Base.Columns != nil }))
	model.of("preprocess").unless(unfit("where M.attach says how images are prepared", func(b *attach.Bundle) bool { return b.Preprocess != nil }))
	running := f.runtimeOptions()
	running.of("provider", "device").unless(asFeatures).unless(alone)
	return join(table{
		{name: "features", to: &f.asFeatures, usage: "take --x as features and logits, and do not run the model"},
	}, model[:1], table{sliceOption("rows", "--x", &f.rows)}, weightsOption(&f.weights, "with --features or for heads that were fitted on features alone", runs),
		f.classNamesOption(", in place of those that fit was given", regressor)), join(model[1:], running)
}

// levelless is where nothing has a level.
func (f *attachedFlags) levelless() []never {
	return []never{
		unfit("where there are neither intervals nor classes", func(b *attach.Bundle) bool {
			return b.Base.Task != attach.Classification && len(b.Calibration.Quantiles) == 0
		}),
		idle("with --sets none", func() bool { return f.sets == "none" }),
	}
}

// setOptions are those of sets, and of intervals as well as sets.
func (f *attachedFlags) setOptions() table {
	without := f.levelless()
	apart := append(without[1:],
		idle("with --sets ordinal, which have one threshold", func() bool { return f.sets == conformal.Ordinal }),
		never{when: func() bool { return f.o.ByClass && f.o.ByCluster }, says: "excludes the other of --by-class and --by-cluster"})
	return join(table{
		{name: "smoothed", to: &f.o.Smoothed, never: without,
			usage: "cover no more often than asked where targets or quantiles take few values, and for sets, some of which are then empty: each row draws what belongs to its interval or set"},
		{name: "interval-score", to: &f.o.IntervalScore, choices: conformal.IntervalScores(),
			usage: "WHICH: intervals that grow by the same everywhere (cqr), by shares of their width (cqr-r) or of each end's distance from the median (cqr-m), from the narrowest between quantiles (cir), or once moved by what forecasts like theirs missed by among half of the calibration rows (rcp)",
			never: []never{noIntervals()}},
	}, table{
		{name: "sets", to: &f.sets, choices: append(conformal.SetScores(), "none"), usage: "WHICH: sets of classes that hold the right one: lac, which are smallest, aps, raps or saps, which are larger for harder inputs, ordinal, without gaps where classes have an order, or none (default: lac where labels were given to fit)"},
		{name: "by-class", to: &f.o.ByClass, usage: "let sets hold the right class as often for inputs of each class", never: apart},
		{name: "by-cluster", to: &f.o.ByCluster, usage: "let sets hold the right class as often for inputs of each cluster of classes that are as hard, for many classes of few calibration rows", never: apart},
		{name: "error", to: &f.o.Error, must: share, usage: "SHARE: accept inputs among which at most this share is classified wrong, with 95 % confidence: those that are not flagged and of which the network is surest"},
	}.unless(noClasses()))
}

// flagByClassOption is that of p-values among rows of the same predicted class.
func (f *attachedFlags) flagByClassOption() *option {
	return &option{
		name: "flag-by-class", to: &f.o.FlagByClass, usage: "rank scores among those of calibration rows of the same predicted class: false alarms are then as rare among inputs of each",
		never: []never{noDetector(), noClasses()},
	}
}

// predictOptions are what is asked of the bundle's predictions. Without --sets, sets are
// those of lac if the file has what they need or another option asks for them.
func (f *attachedFlags) predictOptions(b *attach.Bundle) attach.PredictOptions {
	o := f.o
	classifies := b.Base.Task == attach.Classification
	asked := o.ByClass || o.ByCluster || o.ClassPValues || classifies && (o.Level != 0 || o.Smoothed)
	switch {
	case f.sets != "":
		o.Sets = strings.TrimSuffix(f.sets, "none")
	case asked || classifies && len(b.Calibration.TrueClasses.Labels) > 0:
		o.Sets = conformal.LAC
	}
	return o
}

// attached is M.attach, and what reads rows for it.
type attached struct {
	reading
	flags  *attachedFlags
	bundle *attach.Bundle
	net    *featurize.Attached // what makes features of rows, once openNet opened it
}

// open opens M.attach and refuses flags that mean nothing for it.
func (f *attachedFlags) open(stderr io.Writer) (*attached, error) {
	f.Log = logger(stderr, f.verbose)
	m := &attached{reading: reading{rowFlags: f.rowFlags, stderr: stderr}, flags: f}
	if err := m.readFiles(); err != nil {
		return nil, err
	}
	var err error
	if m.bundle, err = attach.Open(f.path); err != nil {
		return nil, err
	}
	if err := cmp.Or(f.checkFor(m.bundle), m.renameClasses(m.bundle)); err != nil {
		return nil, err
	}
	if m.bundle.Calibration.Groups != nil && f.inputs.Groups == "" && !f.groupless {
		return nil, usagef("%s was calibrated by group; say with --groups where the rows' groups are", f.path)
	}
	return m, nil
}

// predictor makes the predictor that is asked for. stop ends the products that it starts.
func (m *attached) predictor(ctx context.Context, o attach.PredictOptions) (p *attach.Predictor, stop func(), err error) {
	if p, err = m.bundle.Predictor(o); err != nil {
		return nil, nil, err
	}
	stop, err = m.flags.products(ctx)
	return p, stop, err
}

// ofFeatures says that rows are features, which no network makes.
func (m *attached) ofFeatures() bool { return m.flags.asFeatures || m.bundle.Base.SHA256 == "" }

// openNet opens the network that makes the features, if one does and it is not open yet.
func (m *attached) openNet(ctx context.Context) error {
	b := m.bundle
	if m.net != nil || m.ofFeatures() {
		return nil
	}
	if err := m.flags.keeps(source{cmp.Or(m.flags.moved, b.Base.Path), m.flags.path}); err != nil {
		return err
	}
	var err error
	if m.net, err = featurize.OpenFor(ctx, b, m.flags.moved, m.flags.Options); err != nil {
		return err
	}
	m.fitTo(m.net.Model)
	m.hint, m.columns = "pass --features to predict from them", b.Base.Columns
	m.inputs.Expect(b)
	m.inputs.Preprocess = cmp.Or(m.inputs.Preprocess, m.net.Preprocess)
	return nil
}

// openRows opens some of the rows at x, with their labels or targets at y or, where
// that is empty, there.
func (m *attached) openRows(ctx context.Context, x, y string, of inputs.Slice) (*attachedRows, error) {
	if m.ofFeatures() {
		return m.precomputed(ctx, x, y, of)
	}
	if err := m.openNet(ctx); err != nil {
		return nil, err
	}
	set, err := m.openSet(ctx, x, y, of, m.classes)
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
		batches: m.net.Rows(ctx, set.Blocks(ctx, set.BlockRows())),
		known:   knownOf(set, m.classes, m.bundle.Base),
		set:     set,
	}, nil
}

func (m *attached) precomputed(ctx context.Context, x, y string, of inputs.Slice) (*attachedRows, error) {
	base := m.bundle.Base
	want := inputs.Widths{Says: "the bundle was fitted on", Widths: batchparts.Widths{"features": base.Width, "logits": base.Outputs}}
	for i, l := range base.Layers {
		want.Widths[batchparts.Layer(i)] = l.Width
	}
	if len(base.Layers) == 0 {
		want.Layerless = true
	}
	last, err := loadWeights(m.flags.weights, want)
	if err != nil {
		return nil, err
	}
	if err := checkFeatureName(x); err != nil {
		return nil, err
	}
	n, blocks, err := inputs.FeatureBlocks(x, of, 1024, want, layerWidths(m.flags.weights, last))
	if err != nil {
		return nil, err
	}
	groups, err := featureGroups(ctx, x, m.inputs.Groups, of, n)
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
					noteLayer(x, m.flags.weights, last, b, m.stderr)
				}
				if first = false; !yield(attach.Rows{Batch: withLogits(b, last)}, err) {
					return
				}
			}
		},
	}
	if kept := r.known.kept; len(kept) > 0 && !m.unlabelled {
		m.leaveOut(cmp.Or(y, x), r.n-len(kept), r.n)
		r.only(kept)
	}
	return r, err
}

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
	if !truth {
		return inputs.Beside{Groups: r.known.Groups}.With(r.batches)
	}
	return r.known.With(r.batches)
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
