package command

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/modelrows"
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
	asFeatures := idle("with --from-features", func() bool { return f.asFeatures })
	alone := unfit("for heads that were fitted on features alone", func(b *attach.Bundle) bool { return b.Base.SHA256 == "" })
	regressor := unfit("for a regressor, which has no classes", func(b *attach.Bundle) bool { return b.Base.Task == attach.Regression })
	model = join(table{
		{name: "model", to: &f.moved, file: otherFile, usage: "MODEL.onnx: the model that M.attach was fitted for, where it has moved since"},
	}, f.rowOptions(&f.table, unfit("for a model without a tokenizer", func(b *attach.Bundle) bool { return b.Text == nil })), f.batchOption(batchStandard)).unless(asFeatures).unless(alone)
	model.of("keep-classes", "folder-labels").unless(regressor)
	model.of("ignore").unless(unfit("where M.attach names the columns that are inputs: others are left alone", func(b *attach.Bundle) bool { return b.Base.Columns != nil }))
	model.of("preprocess").unless(unfit("where M.attach says how images are prepared", func(b *attach.Bundle) bool { return b.Preprocess != nil }))
	running := f.runtimeOptions()
	running.of("provider", "device").unless(asFeatures).unless(alone)
	return join(table{
		{name: "from-features", to: &f.asFeatures, usage: "take --x as features and logits, and do not run the model"},
	}, model[:1], table{sliceOption("rows", "--x", &f.rows)}, weightsOption(&f.weights, "with --from-features or for heads that were fitted on features alone", runs),
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
		never{when: func() bool { return f.o.ByClass && f.o.ByCluster }, says: "excludes the other of --sets-by-class and --sets-by-cluster"})
	return join(table{
		{name: "smoothed", to: &f.o.Smoothed, never: without,
			usage: "cover no more often than asked where targets or quantiles take few values, and for sets, some of which are then empty: each row draws what belongs to its interval or set"},
		{name: "interval-score", to: &f.o.IntervalScore, choices: conformal.IntervalScores(),
			usage: "WHICH: intervals that grow by the same everywhere (cqr), by shares of their width (cqr-r) or of each end's distance from the median (cqr-m), from the narrowest between quantiles (cir), or once moved by what forecasts like theirs missed by among half of the calibration rows (rcp)",
			never: []never{noIntervals()}},
	}, table{
		{name: "sets", to: &f.sets, choices: append(conformal.SetScores(), "none"), usage: "WHICH: sets of classes that hold the right one: lac, which are smallest, aps, raps or saps, which are larger for harder inputs, ordinal, without gaps where classes have an order, or none (default: lac where labels were given to fit)"},
		{name: "sets-by-class", to: &f.o.ByClass, usage: "let sets hold the right class as often for inputs of each class", never: apart},
		{name: "sets-by-cluster", to: &f.o.ByCluster, usage: "let sets hold the right class as often for inputs of each cluster of classes that are as hard, for many classes of few calibration rows", never: apart},
		{name: "max-error", to: &f.o.MaxError, must: share, usage: "SHARE: accept inputs among which at most this share is classified wrong, with 95 % confidence: those that are not flagged and of which the network is surest"},
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

// options say which rows are opened.
func (f *attachedFlags) options() modelrows.Options {
	return modelrows.Options{How: modelrows.How(f.rowFlags), Bundle: f.path, Model: f.moved, Features: f.asFeatures, Weights: f.weights, Groupless: f.groupless}
}

// attached is M.attach, and what reads rows for it.
type attached struct {
	*modelrows.Attached
	flags  *attachedFlags
	stderr io.Writer
}

// open opens M.attach and refuses flags that mean nothing for it.
func (f *attachedFlags) open(stderr io.Writer) (*attached, error) {
	f.Log = logger(stderr, f.verbose)
	m, err := modelrows.Open(f.options(), f.place.Options, f.fits, noting(stderr))
	if err != nil {
		return nil, err
	}
	return &attached{m, f, stderr}, nil
}

// fits refuses flags that mean nothing for a bundle, and results that would replace its model.
func (f *attachedFlags) fits(b *attach.Bundle) error {
	if err := f.checkFor(b); err != nil || f.asFeatures || b.Base.SHA256 == "" {
		return err
	}
	return f.keeps(source{cmp.Or(f.moved, b.Base.Path), f.path})
}

// predictor makes the predictor that is asked for. stop ends the products that it starts.
func (m *attached) predictor(ctx context.Context, o attach.PredictOptions) (p *attach.Predictor, stop func(), err error) {
	if p, err = m.Bundle.Predictor(o); err != nil {
		return nil, nil, err
	}
	stop, err = m.flags.products(ctx)
	return p, stop, err
}
