package command

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// bundleFlags holds the flags of a command that applies a .attach file to rows.
type bundleFlags struct {
	table
	modelFlags
	rowFlags
	path, x            string
	rows               inputs.Slice // which rows of x to read
	modelPath, weights string       // modelPath: path of the model, if it is not where fit found it
	asFeatures         bool
	keepReasons        bool // whether the reasons of each row are needed
	groupsOptional     bool // whether rows need no groups, even if intervals are calibrated by group
	sets               string
	predict            attach.PredictOptions
}

// The following functions return conflicts of a flag with the .attach file.

func noDetector() conflict {
	return bundleConflict("needs a detector, and M.attach has none", func(b *attach.Bundle) bool { return b.Detector == nil })
}

func noIntervals() conflict {
	return bundleConflict("is for regressors with intervals, and M.attach has no intervals", func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 0 })
}

func noClasses() conflict {
	return bundleConflict("is for classifiers, and M.attach is not one", func(b *attach.Bundle) bool { return b.Base.Task != attach.Classification })
}

func weighted() conflict {
	return bundleConflict("cannot use the weights of the calibration rows in M.attach; leave it out, or fit without --target-rows", func(b *attach.Bundle) bool { return b.Calibration.Weights != nil })
}

func crossFitted() conflict {
	return bundleConflict("cannot use the cross-fitted intervals of M.attach; leave it out, or fit with another value of --interval-rows", func(b *attach.Bundle) bool { return b.Calibration.Folds != nil })
}

// bundleOptions returns the flags that choose rows and features, and the flags that say
// how the model is read and run.
func (f *bundleFlags) bundleOptions() (features, model table) {
	modelIsRun := bundleConflict("has no effect because the model is run; leave it out", func(b *attach.Bundle) bool { return b.Base.SHA256 != "" && !f.asFeatures })
	asFeatures := noEffect("with --from-features", func() bool { return f.asFeatures })
	withoutModel := bundleConflict("has no effect because M.attach was fitted on features, without a model; leave it out", func(b *attach.Bundle) bool { return b.Base.SHA256 == "" })
	regressor := bundleConflict("is for classifiers, and M.attach is a regressor", func(b *attach.Bundle) bool { return b.Base.Task == attach.Regression })
	model = join(f.modelOption(), f.rowOptions(&f.table, bundleConflict("is for models with a tokenizer, and M.attach has none", func(b *attach.Bundle) bool { return b.Text == nil })), f.batchOption(defaultBatch)).withConflicts(asFeatures).withConflicts(withoutModel)
	model.pick("keep-classes", "folder-labels").withConflicts(regressor)
	model.pick("ignore").withConflicts(bundleConflict("has no effect because M.attach names the input columns and other columns are ignored; leave it out", func(b *attach.Bundle) bool { return b.Base.Columns != nil }))
	model.pick("preprocess").withConflicts(bundleConflict("has no effect because M.attach holds the preprocessing; leave it out", func(b *attach.Bundle) bool { return b.Preprocess != nil }))
	running := f.runtimeOptions()
	running.pick("provider", "device").withConflicts(asFeatures).withConflicts(withoutModel)
	return join(table{
		{name: "from-features", dest: &f.asFeatures, group: groupModel, usage: "read features and logits that `attach features` wrote, and do not run the model"},
	}, model[:1], table{sliceOption("rows", "--x", &f.rows)}, weightsOption(&f.weights, "for features", modelIsRun),
		f.classNamesOption("; in place of those that fit was given", regressor)), join(model[1:], running)
}

// modelOption returns --model.
func (f *bundleFlags) modelOption() table {
	return table{
		{name: "model", dest: &f.modelPath, file: otherFile, group: groupModel, usage: "MODEL.onnx: the model that M.attach was fitted for, if it has moved since"},
	}
}

// levelConflicts returns the conflicts of --level with predictions that have no level.
func (f *bundleFlags) levelConflicts() []conflict {
	return []conflict{
		bundleConflict("is for intervals and prediction sets, and M.attach has neither", func(b *attach.Bundle) bool {
			return b.Base.Task != attach.Classification && len(b.Calibration.Quantiles) == 0
		}),
		noEffect("with --sets none", func() bool { return f.sets == "none" }),
	}
}

// predictionSetOptions returns the flags of prediction sets, and the interval flags that
// predict and evaluate share.
func (f *bundleFlags) predictionSetOptions() table {
	levelConflicts := f.levelConflicts()
	notOrdinal := append(levelConflicts[1:],
		noEffect("with --sets ordinal, which have one threshold", func() bool { return f.sets == conformal.Ordinal }))
	combined := func(other string) conflict {
		return conflict{when: func() bool { return f.predict.SetsByClass && f.predict.SetsByCluster }, reason: "cannot be combined with " + other}
	}
	return join(table{
		{name: "interval-score", dest: &f.predict.IntervalScore, choices: conformal.IntervalScores(), group: groupIntervals, conflicts: []conflict{noIntervals()},
			usage: "SCORE: how intervals are widened to cover: cqr all by the same amount, cqr-r in proportion to their width, cqr-m each side in proportion to its distance from the median, cir from the narrowest interval, rcp after correcting for similar forecasts, ridge after removing a bias, for few rows (default: the score of the fit)"},
		{name: "smoothed", dest: &f.predict.Smoothed, conflicts: append(slices.Clone(levelConflicts), weighted(), crossFitted()), group: groupIntervals,
			usage: "break ties at random, so that coverage is exact if targets or quantiles take few values; prediction sets may then be empty"},
	}, table{
		{name: "sets", dest: &f.sets, choices: append(conformal.SetScores(), "none"), usage: "SCORE: kind of prediction set: lac, the smallest; aps, raps or saps, larger for harder inputs; ordinal, without gaps if classes have an order; or none (default: lac if fit had labels)"},
		{name: "sets-by-class", dest: &f.predict.SetsByClass, usage: "guarantee the coverage for each class, not only on average", conflicts: append(slices.Clone(notOrdinal), combined("--sets-by-cluster"))},
		{name: "sets-by-cluster", dest: &f.predict.SetsByCluster, usage: "guarantee the coverage for each cluster of similarly hard classes, if classes are many and each has few calibration rows", conflicts: append(slices.Clone(notOrdinal), combined("--sets-by-class"))},
		{name: "max-error", dest: &f.predict.MaxError, rule: fraction, conflicts: []conflict{weighted()}, usage: "FRACTION: accept the most confident predictions, so many that at most this fraction of them is wrong (95 % confidence)"},
	}.inGroup(groupSets).withConflicts(noClasses()))
}

// jointOption returns --joint.
func (f *bundleFlags) jointOption() *option {
	return &option{
		name: "joint", dest: &f.predict.Joint, group: groupIntervals,
		usage:     "cover all targets of a row at once, with wider intervals: the same as --region box",
		conflicts: []conflict{noIntervals(), {when: func() bool { return f.predict.Region == conformal.Ellipsoid }, reason: "cannot be combined with --region ellipsoid, which covers all targets at once too"}},
	}
}

// regionOption returns --region.
func (f *bundleFlags) regionOption() *option {
	ellipsoid := func(other string, when func() bool) conflict {
		return conflict{when: func() bool { return f.predict.Region == conformal.Ellipsoid && when() }, reason: "ellipsoid cannot be combined with " + other}
	}
	return &option{
		name: "region", dest: &f.predict.Region, choices: conformal.Regions(), group: groupIntervals,
		usage: "REGION: cover all targets of a row at once, with a box or with an ellipsoid, which is smaller if the errors of targets are correlated",
		conflicts: []conflict{
			noIntervals(),
			bundleConflict("is for several targets, and M.attach has one", func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 1 }),
			ellipsoid("--interval-score", func() bool { return f.predict.IntervalScore != "" }),
			ellipsoid("--smoothed", func() bool { return f.predict.Smoothed }),
		},
	}
}

// flagByClassOption returns --flag-by-class.
func (f *bundleFlags) flagByClassOption() *option {
	return &option{
		name: "flag-by-class", dest: &f.predict.FlagByClass, group: groupDetector, usage: "compare each input only with calibration rows of the same predicted class, so that the false-alarm rate holds for each class",
		conflicts: []conflict{noDetector(), noClasses()},
	}
}

// predictOptions returns the options of predictions with the bundle. Without --sets,
// prediction sets use the score LAC if the file has labels or if another flag needs sets.
func (f *bundleFlags) predictOptions(b *attach.Bundle) attach.PredictOptions {
	o := f.predict
	classifies := b.Base.Task == attach.Classification
	needsSets := o.SetsByClass || o.SetsByCluster || o.ClassPValues || classifies && (o.Level != 0 || o.Smoothed)
	switch {
	case f.sets != "":
		o.Sets = strings.TrimSuffix(f.sets, "none")
	case needsSets || classifies && len(b.Calibration.TrueClasses.Labels) > 0:
		o.Sets = conformal.LAC
	}
	return o
}

// options returns the options for opening the .attach file.
func (f *bundleFlags) options() modelrows.Options {
	return modelrows.Options{ReadOptions: modelrows.ReadOptions(f.rowFlags), Bundle: f.path, Model: f.modelPath, FromFeatures: f.asFeatures, Weights: f.weights, Groupless: f.groupsOptional, KeepReasons: f.keepReasons}
}

// openedBundle is an open .attach file with the reader of its rows.
type openedBundle struct {
	*modelrows.Attached
	flags  *bundleFlags
	stderr io.Writer
}

// open opens the .attach file. It returns a usage error if a flag conflicts with the file.
func (f *bundleFlags) open(stderr io.Writer) (*openedBundle, error) {
	f.Log = logger(stderr, f.verbose)
	m, err := modelrows.Open(f.options(), f.modelFlags.Options, f.checkBundle, notePrinter(stderr))
	if err != nil {
		return nil, err
	}
	return &openedBundle{m, f, stderr}, nil
}

// checkBundle returns a usage error if a flag conflicts with the bundle, or if a result would
// overwrite the bundle's model.
func (f *bundleFlags) checkBundle(b *attach.Bundle) error {
	if err := f.checkBundleConflicts(b, f.path); err != nil || f.asFeatures || b.Base.SHA256 == "" {
		return err
	}
	return f.checkOverwrite(usedFile{cmp.Or(f.modelPath, b.Base.Path), f.path})
}

// predictor returns a predictor, and moves large matrix products of the process to the
// runtime until stop is called.
func (m *openedBundle) predictor(ctx context.Context, o attach.PredictOptions) (p *attach.Predictor, stop func(), err error) {
	if p, err = m.Bundle.Predictor(o); err != nil {
		return nil, nil, err
	}
	stop, err = m.flags.offloadProducts(ctx)
	return p, stop, err
}
