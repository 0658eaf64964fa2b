package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/testmodels"
)

// demoCall holds the flags of attach demo and its results.
type demoCall struct {
	table
	modelFlags
	dir      string
	methods  comparedMethods
	seed     uint64
	trainer  *fit.Engine
	results  []classifierResult
	testRows int // number of rows on which the regressor's intervals are tested
}

// classifierResult holds the results of the demo for one classifier.
type classifierResult struct {
	model                   string
	calibrationRows         int
	alpha                   float64
	letters, flaggedLetters int
	digits, flaggedDigits   int
}

func demoCommand() *cli.Command {
	d := &demoCall{dir: "attach-demo", methods: detectors(), modelFlags: modelFlags{Options: featurize.Options{Batch: 64, EarlierLayers: featurize.DefaultEarlierLayers}}}
	d.table = join(table{
		{name: "o", dest: &d.dir, required: true, usage: "DIR: folder to write to, new or empty", group: groupOutput},
	}, table{
		{name: "methods", dest: d.methods.set, choices: methodNames(detectors()), list: true, usage: methodsUsage},
		{name: "seed", dest: &d.seed, usage: "N: seed of all random choices"},
	}.inGroup(groupMethods), d.runtimeOptions())
	return d.command(cli.Command{
		Name:      "demo",
		Usage:     "try attach on small models that come with it",
		UsageText: "attach demo [-o DIR]",
		Description: "Calibrates two classifiers of digits and shows them letters, calibrates a regressor, measures every detector, and writes a report. It takes about a minute. " +
			"The models and inputs stay in the folder, and the examples of every command's help work there.",
		CustomHelpTemplate: `attach demo && cd attach-demo
# in a moment, with few methods
attach demo --methods certificates,knn -o quick`,
	}, argument{}, d.log, d.run)
}

func (d *demoCall) run(c *cli.Context) error {
	started := time.Now()
	engine, stop, err := d.newEngine(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	d.trainer = engine
	if err := d.unpack(c.Context); err != nil {
		return err
	}
	page := report.Page{
		Title: "When not to trust a model",
		Lead: "Calibrated uncertainty for models that were already trained: two classifiers of digits that meet letters, which they were never shown, " +
			"and a regressor that meets inputs far from its training data. Nothing was retrained.",
	}
	for _, m := range []struct{ file, title, lead string }{
		{"digits_resnet", "A residual network meets letters", "Detectors are fitted and calibrated on digits. They are measured on digits that the network has not seen, against letters. Higher scores mean more uncertain. " +
			"No method wins everywhere: certificates trained with cross-entropy for the paper's ten epochs, a few hundred steps here, can do worse than chance, while the exact ones do well."},
		{"digits_vgg", "A VGG network meets letters", "The same inputs through another network: the best method for one network need not be the best for the next."},
	} {
		set, facts, err := d.classifier(c, m.file)
		if err != nil {
			return fmt.Errorf("%s: %w", m.file, err)
		}
		set.Title, set.Lead = m.title, m.lead
		page.Sets = append(page.Sets, set)
		page.Facts = append(page.Facts, facts...)
	}
	if page.Band, err = d.regressor(c); err != nil {
		return fmt.Errorf("toy_regressor: %w", err)
	}
	page.Facts = append(page.Facts, report.Fact{
		Value: display.Percent(page.Band.Coverage), Label: "of held-out targets are inside their " + display.GivenPercent(page.Band.Level) + " interval",
	})
	path := d.path("report.html")
	if err := writePage(c.Context, path, page); err != nil {
		return err
	}
	return d.printResults(c.App.Writer, page.Band, path, time.Since(started))
}

// printResults prints the results of the demo in a few lines.
func (d *demoCall) printResults(w io.Writer, band *report.Band, path string, duration time.Duration) error {
	var b strings.Builder
	for i, s := range d.results {
		if i == 0 {
			printf(&b, "Two models read digits. We calibrated each on %s digits and then showed it letters.\n\n", display.Count(s.calibrationRows))
		}
		printf(&b, "  %-13s  flags %s of %s letters and %s of %s new digits (about %s expected)\n", s.model,
			display.Count(s.flaggedLetters), display.Count(s.letters), display.Count(s.flaggedDigits), display.Count(s.digits), display.GivenPercent(s.alpha))
	}
	printf(&b, "  %-13s  %s intervals contain %s of %s held-out targets\n\n", "toy_regressor", display.GivenPercent(band.Level), display.Percent(band.Coverage), display.Count(d.testRows))
	printf(&b, "%s shows the flagged images and compares %s (%.0f s).\n", path, rows.Count(len(d.methods), "method"), duration.Seconds())
	printf(&b, "Next:\n  cd %s\n  attach predict digits_resnet.attach --x letters.npz\n  attach evaluate digits_resnet.attach --x digits_test.npz --ood letters.npz\n", d.dir)
	_, err := io.WriteString(w, b.String())
	return err
}

// unpack writes the models and inputs that are built into the command. The folder must be
// new, empty or from an earlier demo.
func (d *demoCall) unpack(ctx context.Context) error {
	isDemo := func(e fs.DirEntry) bool { return e.Name() == "digits.preprocess.json" }
	if entries, err := os.ReadDir(d.dir); err == nil && len(entries) > 0 && !slices.ContainsFunc(entries, isDemo) {
		return fmt.Errorf("%s contains other files, which the demo could overwrite; name an empty folder with -o", d.dir)
	}
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return err
	}
	return fs.WalkDir(testmodels.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(testmodels.FS, name)
		if err != nil {
			return err
		}
		return atomicfile.WriteFile(ctx, filepath.Join(d.dir, filepath.Base(name)), func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	})
}

func (d *demoCall) path(name string) string { return filepath.Join(d.dir, name) }

// demoResamples is the number of bootstrap resamples of the demo.
const demoResamples = 500

// classifier fits a detector for one network, and measures the methods of --methods on it.
func (d *demoCall) classifier(c *cli.Context, name string) (set report.Comparison, facts []report.Fact, err error) {
	ctx := c.Context
	m := &compareCall{
		modelFlags: d.modelFlags, rowReader: rowReader{rowFlags: rowFlags{Preprocess: d.path("digits.preprocess.json")}}, path: d.path(name + ".onnx"),
		x: d.path("digits_fit.npz"), test: d.path("digits_test.npz"), ood: oodSets{{path: d.path("letters.npz")}},
		options: compare.Options{Methods: d.methods, Resamples: demoResamples, Training: ood.Training{Trainer: d.trainer, Seed: d.seed}},
	}
	defer m.CloseModel()
	if err := m.readOptionFiles(c); err != nil {
		return set, nil, err
	}
	if err := m.readSetsThroughModel(ctx); err != nil {
		return set, nil, err
	}
	if set.Report, err = m.measure(ctx); err != nil {
		return set, nil, err
	}
	set.Report.Model, set.Report.ModelSHA256 = name+".onnx", m.Model.Base("").SHA256

	calibration, err := m.OpenSet(ctx, d.path("digits_cal.npz"), "", inputs.Slice{}, nil)
	if err != nil {
		return set, nil, err
	}
	cal, err := m.runModel(ctx, name, calibration, nil)
	if err != nil {
		return set, nil, err
	}
	fitted := m.options.Training.Inputs.(*inputs.Set)
	learner := m.newLearner(fitted)
	for _, err := range learner.Observe(fitted.Blocks(ctx, fitted.BlockRows())) {
		if err != nil {
			return set, nil, err
		}
	}
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base: m.Model.Base(attach.Classification), Preprocess: m.Raw, Layout: m.Inputs.Layout, Profile: learner.Profile(),
		Batch: m.options.Training.Batch, Cal: cal, Last: m.Model.Last(), Trainer: d.trainer, Seed: d.seed,
	})
	if err != nil {
		return set, nil, err
	}
	if err := b.Save(ctx, d.path(name+".attach")); err != nil {
		return set, nil, err
	}
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		return set, nil, err
	}
	set.SuspiciousLead = "The highest scores of the detector among equally many digits and letters, with p-values."
	result := classifierResult{model: name, calibrationRows: cal.Len(), alpha: b.Calibration.Alpha}
	var all []scoredRow
	n := min(m.options.Test.Len(), m.options.OOD.Len())
	for _, side := range []struct {
		ood.Batch
		outside bool
		label   string
	}{
		{m.options.OOD, true, "of letters flagged on " + name},
		{m.options.Test, false, "of new digits flagged (asked: at most " + display.GivenPercent(b.Calibration.Alpha) + ")"},
	} {
		predictions, err := predictor.Predict(ctx, attach.Rows{Batch: side.Batch})
		if err != nil {
			return set, nil, err
		}
		flagged := 0
		for i, p := range predictions {
			if p.Flag {
				flagged++
			}
			if i < n {
				all = append(all, scoredRow{p, side.Inputs.(*inputs.Set), i, side.outside})
			}
		}
		facts = append(facts, report.Fact{Value: display.Percent(float64(flagged) / float64(len(predictions))), Label: side.label})
		if side.outside {
			result.letters, result.flaggedLetters = len(predictions), flagged
		} else {
			result.digits, result.flaggedDigits = len(predictions), flagged
		}
	}
	d.results = append(d.results, result)
	set.Suspicious, err = mostSuspicious(ctx, all)
	return set, facts, err
}

// scoredRow is a row of a set with its prediction.
type scoredRow struct {
	attach.Prediction
	set     *inputs.Set
	index   int
	outside bool
}

// mostSuspicious returns the images with the highest scores.
func mostSuspicious(ctx context.Context, rows []scoredRow) ([]report.Example, error) {
	const maxExamples = 24
	slices.SortStableFunc(rows, func(a, b scoredRow) int { return cmp.Compare(b.Score, a.Score) })
	var examples []report.Example
	for _, r := range rows[:min(maxExamples, len(rows))] {
		img, err := r.set.Thumbnails(ctx, []int{r.index})
		if err != nil {
			return nil, err
		}
		examples = append(examples, report.Example{Image: img[0], Caption: fmt.Sprintf("p %.4f", r.PValue), Outside: r.outside})
	}
	return examples, nil
}

// regressor fits intervals and certificates for the toy network, as in figure 1 of
// Tagasovska & Lopez-Paz (2019).
func (d *demoCall) regressor(c *cli.Context) (*report.Band, error) {
	const first, last, points = -5.0, 5.0, 400
	ctx := c.Context
	f := &fitCall{modelFlags: d.modelFlags, path: d.path("toy_regressor.onnx"), x: rowSource{x: d.path("toy_fit.npz")}, cal: rowSource{x: d.path("toy_cal.npz")}, out: d.path("toy_regressor.attach")}
	f.options = attach.FitOptions{Level: .95, Seed: d.seed, Trainer: d.trainer}
	defer f.CloseModel()
	if err := f.readOptionFiles(c); err != nil {
		return nil, err
	}
	if err := f.readRowsThroughModel(ctx); err != nil {
		return nil, err
	}
	b, err := f.fit(ctx, "toy_regressor")
	if err != nil {
		return nil, err
	}
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		return nil, err
	}

	band := &report.Band{Title: "A regressor and both its uncertainties", Alpha: b.Calibration.Alpha, Level: b.Calibration.Level}
	x := make([]float32, points)
	for i := range x {
		x[i] = float32(first + (last-first)*float64(i)/(points-1))
		band.X = append(band.X, float64(x[i]))
	}
	batch, err := f.Model.Network().Forward(ctx, ood.BlockOf([]int{points, 1}, x))
	if err != nil {
		return nil, err
	}
	predictions, err := predictor.Predict(ctx, attach.Rows{Batch: batch})
	if err != nil {
		return nil, err
	}
	for _, p := range predictions {
		y := p.Targets[0]
		band.Median, band.Lower, band.Upper = append(band.Median, y.Median), append(band.Lower, y.Lower), append(band.Upper, y.Upper)
		band.Epistemic = append(band.Epistemic, p.PValue)
	}
	trainX, err := f.options.Batch.Inputs.(*inputs.Set).All(ctx)
	if err != nil {
		return nil, err
	}
	for i := range trainX.Rows {
		band.TrainX = append(band.TrainX, float64(trainX.Data[i*trainX.Stride]))
		band.TrainY = append(band.TrainY, float64(f.options.Targets.Data[i*f.options.Targets.Stride]))
	}

	test, err := f.OpenSet(ctx, d.path("toy_test.npz"), "", inputs.Slice{}, nil)
	if err != nil {
		return nil, err
	}
	batch, err = f.runModel(ctx, "toy_regressor", test, nil)
	if err != nil {
		return nil, err
	}
	blocks := func(yield func(attach.Rows, error) bool) {
		yield(attach.Rows{Batch: batch, Targets: test.Targets}, nil)
	}
	e, err := evaluate.Rows(ctx, predictor, blocks, evaluate.Options{})
	if err != nil {
		return nil, err
	}
	coverage := e.Targets[0].Coverage[0]
	band.Coverage, band.MeanGap, d.testRows = coverage.Fraction, *coverage.MeanWidth, e.Rows
	return band, nil
}
