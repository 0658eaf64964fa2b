package command

import (
	"cmp"
	"context"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// attached is M.attach and rows that it is used on.
type attached struct {
	table
	place
	reading
	path, x        string
	rows           inputs.Slice // of x
	moved, weights string       // moved: where the model is now
	asFeatures     bool
	groupless      bool                // rows may come without the groups that intervals have
	bundle         *attach.Bundle      // nil until it is opened
	net            *featurize.Attached // nil until rows that it is run on are
	sets           string
	o              attach.PredictOptions
}

// opened says that the bundle is open and like that.
func (f *attached) opened(is func(*attach.Bundle) bool) func() bool {
	return func() bool { return f.bundle != nil && is(f.bundle) }
}

// attachedOptions are those for rows of features, and of how a model is run.
func (f *attached) attachedOptions() (features, model table) {
	runs := idle("where the model is run", f.opened(func(b *attach.Bundle) bool { return b.Base.SHA256 != "" && !f.asFeatures }))
	asFeatures := idle("with --features", func() bool { return f.asFeatures })
	alone := idle("for heads that were fitted on features alone", f.opened(func(b *attach.Bundle) bool { return b.Base.SHA256 == "" }))
	regressor := idle("for a regressor, which has no classes", f.opened(func(b *attach.Bundle) bool { return b.Base.Task == attach.Regression }))
	model = join(table{
		{name: "model", to: &f.moved, file: otherFile, usage: "MODEL.onnx: the model that M.attach was fitted for, where it has moved since"},
	}, f.rowOptions(&f.table), f.batchOption(batchStandard)).unless(asFeatures).unless(alone)
	model.of("classes", "labels").unless(regressor)
	model.of("ignore").unless(idle("where M.attach names the columns that are inputs: others are left alone", f.opened(func(b *attach.Bundle) bool { return b.Base.Columns != nil })))
	model.of("preprocess").unless(idle("where M.attach says how images are prepared", f.opened(func(b *attach.Bundle) bool { return b.Preprocess != nil })))
	running := f.runtimeOptions()
	running.of("provider", "device").unless(asFeatures).unless(alone)
	return join(table{
		{name: "features", to: &f.asFeatures, usage: "take --x as features and logits, and do not run the model"},
	}, model[:1], table{sliceOption("rows", "--x", &f.rows)}, weightsOption(&f.weights, "with --features or for heads that were fitted on features alone", runs),
		f.classNamesOption(", in place of those that fit was given", regressor)), join(model[1:], running)
}

// levelless is where nothing has a level.
func (f *attached) levelless() []never {
	return []never{
		idle("where there are neither intervals nor classes", f.opened(func(b *attach.Bundle) bool {
			return b.Base.Task != attach.Classification && len(b.Calibration.Quantiles) == 0
		})),
		idle("with --sets none", func() bool { return f.sets == "none" }),
	}
}

// setOptions are those of sets, and of intervals as well as sets.
func (f *attached) setOptions() table {
	without := f.levelless()
	apart := append(without[1:],
		idle("with --sets ordinal, which have one threshold", func() bool { return f.sets == conformal.Ordinal }),
		never{func() bool { return f.o.ByClass && f.o.ByCluster }, "excludes the other of --by-class and --by-cluster"})
	return join(table{
		{name: "smoothed", to: &f.o.Smoothed, never: without,
			usage: "cover no more often than asked where targets or quantiles take few values, and for sets, some of which are then empty: each row draws what belongs to its interval or set"},
		{name: "interval-score", to: &f.o.IntervalScore, choices: conformal.IntervalScores(),
			usage: "WHICH: intervals that grow by the same everywhere (cqr), by shares of their width (cqr-r) or of each end's distance from the median (cqr-m), from the narrowest between quantiles (cir), or once moved by what forecasts like theirs missed by among half of the calibration rows (rcp)",
			never: []never{
				idle("for heads without intervals, such as a classifier's", f.opened(func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 0 })),
			}},
	}, table{
		{name: "sets", to: &f.sets, choices: append(conformal.SetScores(), "none"), usage: "WHICH: sets of classes that hold the right one: lac, which are smallest, aps, raps or saps, which are larger for harder inputs, ordinal, without gaps where classes have an order, or none (default: lac where labels were given to fit)"},
		{name: "by-class", to: &f.o.ByClass, usage: "let sets hold the right class as often for inputs of each class", never: apart},
		{name: "by-cluster", to: &f.o.ByCluster, usage: "let sets hold the right class as often for inputs of each cluster of classes that are as hard, for many classes of few calibration rows", never: apart},
		{name: "error", to: &f.o.Error, must: share, usage: "SHARE: accept inputs among which at most this share is classified wrong, with 95 % confidence: those that are not flagged and of which the network is surest"},
	}.unless(idle("for a network that answers no classes", f.opened(func(b *attach.Bundle) bool { return b.Base.Task != attach.Classification }))))
}

// flagByClassOption is that of p-values among rows of the same predicted class.
func (f *attached) flagByClassOption(noDetector never) *option {
	return &option{
		name: "flag-by-class", to: &f.o.FlagByClass, usage: "rank scores among those of calibration rows of the same predicted class: false alarms are then as rare among inputs of each",
		never: []never{noDetector, idle("for a network that answers no classes", f.opened(func(b *attach.Bundle) bool { return b.Base.Task != attach.Classification }))},
	}
}

// chooseSets says which sets are wanted: without --sets those of lac, where the
// file has what they need or another option asks for them.
func (f *attached) chooseSets() {
	classifies := f.bundle.Base.Task == attach.Classification
	asked := f.o.ByClass || f.o.ByCluster || f.o.ClassPValues || classifies && (f.o.Level != 0 || f.o.Smoothed)
	switch {
	case f.sets != "":
		f.o.Sets = strings.TrimSuffix(f.sets, "none")
	case asked || classifies && len(f.bundle.Calibration.TrueClasses.Labels) > 0:
		f.o.Sets = conformal.LAC
	}
}

// open opens the bundle and checks what the options say of it.
func (f *attached) open() (err error) {
	if f.bundle, err = attach.Open(f.path); err != nil {
		return err
	}
	if err := cmp.Or(f.check(), f.renameClasses(f.bundle)); err != nil {
		return err
	}
	if f.bundle.Calibration.Groups != nil && f.inputs.Groups == "" && !f.groupless {
		return usagef("%s was calibrated by group; say with --groups where the rows' groups are", f.path)
	}
	return nil
}

// load opens the bundle and makes the predictor that the options ask for. stop ends
// the products that it starts.
func (f *attached) load(ctx context.Context) (p *attach.Predictor, stop func(), err error) {
	if err := f.open(); err != nil {
		return nil, nil, err
	}
	f.chooseSets()
	if p, err = f.bundle.Predictor(f.o); err != nil {
		return nil, nil, err
	}
	stop, err = f.products(ctx)
	return p, stop, err
}
