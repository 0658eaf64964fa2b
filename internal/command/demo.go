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
	"time"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/testmodels"
)

// demo is a call of attach demo.
type demo struct {
	table
	place
	dir     string
	methods comparedMethods
	seed    uint64
	stdout  io.Writer
	trainer *fit.Engine
}

func demoCommand() *cli.Command {
	d := &demo{dir: "attach-demo", methods: detectors(), place: place{Options: featurize.Options{Batch: 64, EarlierLayers: featurize.DefaultEarlierLayers}}}
	d.table = join(table{
		{name: "o", to: &d.dir, needed: true, usage: "FOLDER: to write to, a new or an empty one"},
		{name: "methods", to: d.methods.set, usage: methodsUsage},
		{name: "seed", to: &d.seed, usage: "N: seed of all that is drawn at random"},
	}, d.runtimeOptions())
	return d.command(cli.Command{
		Name:      "demo",
		Usage:     "try everything on small models that come with the command",
		UsageText: "attach demo [-o FOLDER]",
		Description: "Fits and calibrates heads for two digit classifiers and a regressor, compares every method on digits against letters, prints a table and " +
			"writes a report. The models and inputs are left in the folder, to go on with by hand.",
	}, argument{}, d.log, d.run)
}

func (d *demo) run(c *cli.Context) error {
	started := time.Now()
	d.stdout = c.App.Writer
	engine, stop, err := d.engine(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	d.trainer = engine
	if err := d.unpack(c.Context); err != nil {
		return err
	}
	page := report.Page{
		Title: "When not to trust a network",
		Lead: "Heads attached to networks that were already trained: two classifiers of rendered digits that meet letters they were never shown, " +
			"and a regressor that meets inputs it has no rows for. Nothing was retrained.",
	}
	for _, m := range []struct{ file, title, lead string }{
		{"digits_resnet", "A residual network meets letters", "Fitted and calibrated on digits alone; digits the network has not seen against letters. Higher scores mean more uncertain. " +
			"No method wins everywhere: certificates trained with cross-entropy for the paper's ten epochs, a few hundred steps here, can do worse than chance, where the exact ones do well."},
		{"digits_vgg", "A VGG network meets letters", "The same inputs through a network of another kind: what is best on one network need not be on the next."},
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
		Value: display.Percent(page.Band.Coverage), Label: "of fresh targets inside the " + display.Asked(page.Band.Level) + " interval",
	})
	path := d.path("report.html")
	if err := writePage(c.Context, path, page); err != nil {
		return err
	}
	_, err = printf(c.App.Writer, "\nwrote %s in %.0f s\n\nGo on by hand, for example:\n  attach inspect %[3]s\n  attach predict %s --x %s -o -\n",
		path, time.Since(started).Seconds(), d.path("digits_resnet.onnx"), d.path("digits_resnet.attach"), d.path("letters.npz"))
	return err
}

// unpack writes the models and inputs that come with the command, to a folder of
// an earlier demo or an empty one.
func (d *demo) unpack(ctx context.Context) error {
	isDemo := func(e fs.DirEntry) bool { return e.Name() == "digits.preprocess.json" }
	if there, err := os.ReadDir(d.dir); err == nil && len(there) > 0 && !slices.ContainsFunc(there, isDemo) {
		return fmt.Errorf("%s holds other files, which the demo's could replace; name an empty folder with -o", d.dir)
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

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// demoResamples is how many the demo's confidence intervals come from.
const demoResamples = 500

// classifier attaches heads to a network and compares every method on it.
func (d *demo) classifier(c *cli.Context, name string) (set report.Comparison, facts []report.Fact, err error) {
	ctx := c.Context
	m := &comparing{
		place: d.place, reading: reading{rowFlags: rowFlags{Preprocess: d.path("digits.preprocess.json")}}, path: d.path(name + ".onnx"),
		x: d.path("digits_fit.npz"), test: d.path("digits_test.npz"), ood: oodSets{{path: d.path("letters.npz")}},
		job: compare.Options{Methods: d.methods, Resamples: demoResamples, Training: ood.Training{Trainer: d.trainer, Seed: d.seed}},
	}
	defer m.CloseModel()
	if err := m.begin(c); err != nil {
		return set, nil, err
	}
	if err := m.readModel(ctx); err != nil {
		return set, nil, err
	}
	if set.Report, err = m.measure(ctx); err != nil {
		return set, nil, err
	}
	set.Report.Model, set.Report.ModelSHA256 = name+".onnx", m.Model.Base("").SHA256
	if _, err := fmt.Fprintf(d.stdout, "%s: %s\n", name, report.ComparisonText(set.Report)); err != nil {
		return set, nil, err
	}

	held, err := m.OpenSet(ctx, d.path("digits_cal.npz"), "", inputs.Slice{}, nil)
	if err != nil {
		return set, nil, err
	}
	cal, err := m.features(ctx, name, held)
	if err != nil {
		return set, nil, err
	}
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base: m.Model.Base(attach.Classification), Preprocess: m.Raw, Layout: m.Inputs.Layout,
		Batch: m.job.Training.Batch, Cal: cal, Last: m.Model.Last(), Trainer: d.trainer, Seed: d.seed,
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
	set.SuspiciousLead = "The highest scores of the attached detector among equally many digits and letters, with conformal p-values."
	var rows []scored
	n := min(m.job.Test.Len(), m.job.OOD.Len())
	for _, side := range []struct {
		ood.Batch
		outside bool
		label   string
	}{
		{m.job.OOD, true, "of letters flagged on " + name},
		{m.job.Test, false, "of fresh digits flagged (asked: at most " + display.Asked(b.Calibration.Alpha) + ")"},
	} {
		predictions, err := predictor.Predict(ctx, attach.Rows{Batch: side.Batch})
		if err != nil {
			return set, nil, err
		}
		flags := 0.
		for i, p := range predictions {
			if p.Flag {
				flags++
			}
			if i < n {
				rows = append(rows, scored{p, side.Inputs.(*inputs.Set), i, side.outside})
			}
		}
		facts = append(facts, report.Fact{Value: display.Percent(flags / float64(len(predictions))), Label: side.label})
	}
	set.Suspicious, err = mostSuspicious(ctx, rows)
	return set, facts, err
}

// scored is a row of a set with what is predicted of it.
type scored struct {
	attach.Prediction
	set     *inputs.Set
	index   int
	outside bool
}

// mostSuspicious picks the images with the highest scores.
func mostSuspicious(ctx context.Context, rows []scored) ([]report.Example, error) {
	const shown = 24
	slices.SortStableFunc(rows, func(a, b scored) int { return cmp.Compare(b.Score, a.Score) })
	var examples []report.Example
	for _, r := range rows[:min(shown, len(rows))] {
		img, err := r.set.Thumbnails(ctx, []int{r.index})
		if err != nil {
			return nil, err
		}
		examples = append(examples, report.Example{Image: img[0], Caption: fmt.Sprintf("p %.4f", r.PValue), Outside: r.outside})
	}
	return examples, nil
}

// regressor attaches a quantile head and certificates to the toy network, as in
// figure 1 of Tagasovska & Lopez-Paz (2019).
func (d *demo) regressor(c *cli.Context) (*report.Band, error) {
	const from, to, points = -5.0, 5.0, 400
	ctx := c.Context
	f := &fitCall{place: d.place, path: d.path("toy_regressor.onnx"), x: given{x: d.path("toy_fit.npz")}, cal: given{x: d.path("toy_cal.npz")}, out: d.path("toy_regressor.attach")}
	f.in = attach.FitOptions{Level: .95, Seed: d.seed, Trainer: d.trainer, QuantileParams: ood.Params{"hidden": "100x100"}}
	defer f.CloseModel()
	if err := f.begin(c); err != nil {
		return nil, err
	}
	if err := f.readModel(ctx); err != nil {
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
		x[i] = float32(from + (to-from)*float64(i)/(points-1))
		band.X = append(band.X, float64(x[i]))
	}
	batch, err := f.Model.Network().Forward(ctx, ood.BlockOf([]int{points, 1}, x))
	if err != nil {
		return nil, err
	}
	line, err := predictor.Predict(ctx, attach.Rows{Batch: batch})
	if err != nil {
		return nil, err
	}
	for _, p := range line {
		y := p.Targets[0]
		band.Median, band.Lower, band.Upper = append(band.Median, y.Median), append(band.Lower, y.Lower), append(band.Upper, y.Upper)
		band.Epistemic = append(band.Epistemic, p.PValue)
	}
	trainX, err := f.in.Batch.Inputs.(*inputs.Set).All(ctx)
	if err != nil {
		return nil, err
	}
	for i := range trainX.Rows {
		band.TrainX = append(band.TrainX, float64(trainX.Data[i*trainX.Stride]))
		band.TrainY = append(band.TrainY, float64(f.in.Targets.Data[i*f.in.Targets.Stride]))
	}

	test, err := f.OpenSet(ctx, d.path("toy_test.npz"), "", inputs.Slice{}, nil)
	if err != nil {
		return nil, err
	}
	rows, err := f.features(ctx, "toy_regressor", test)
	if err != nil {
		return nil, err
	}
	fresh := func(yield func(attach.Rows, error) bool) {
		yield(attach.Rows{Batch: rows, Targets: test.Targets}, nil)
	}
	e, err := evaluate.Rows(ctx, predictor, fresh, evaluate.Options{})
	if err != nil {
		return nil, err
	}
	covered := e.Targets[0].Coverage[0]
	band.Coverage, band.MeanGap = covered.Fraction, *covered.MeanWidth
	_, err = printf(d.stdout, "toy_regressor: %s intervals cover %s of %d fresh rows, mean width %.2f\n",
		display.Asked(band.Level), display.Percent(band.Coverage), e.Rows, band.MeanGap)
	return band, err
}
