package main

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/testmodels"
)

// demo is a call of attach demo.
type demo struct {
	table
	place
	dir            string
	seed           uint64
	stdout, stderr io.Writer
	trainer        *fit.Engine
}

func demoCommand() *cli.Command {
	d := &demo{dir: "attach-demo", place: place{Options: featurize.Options{Batch: 64, EarlierLayers: featurize.DefaultEarlierLayers}}}
	d.table = join(table{
		{name: "o", to: &d.dir, needed: true, usage: "FOLDER: to write to, a new or an empty one"},
		{name: "seed", to: &d.seed, usage: "N: seed of all that is drawn at random"},
	}, d.runtimeOptions())
	return d.command(cli.Command{
		Name:      "demo",
		Usage:     "try everything on small models that come with the command",
		UsageText: "attach demo [-o FOLDER]",
		Description: "Fits and calibrates heads for two digit classifiers and a regressor, compares every method on digits against letters, prints a table and " +
			"writes a report. The models and inputs are left in the folder, to go on with by hand.",
	}, argument{}, d.run)
}

func (d *demo) run(c *cli.Context) error {
	started := time.Now()
	d.stdout, d.stderr = c.App.Writer, c.App.ErrWriter
	engine, stop, err := d.engine(c)
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
		set, facts, err := d.classifier(c.Context, m.file)
		if err != nil {
			return fmt.Errorf("%s: %w", m.file, err)
		}
		set.Title, set.Lead = m.title, m.lead
		page.Sets = append(page.Sets, set)
		page.Facts = append(page.Facts, facts...)
	}
	if page.Band, err = d.regressor(c.Context); err != nil {
		return fmt.Errorf("toy_regressor: %w", err)
	}
	page.Facts = append(page.Facts, report.Fact{
		Value: fmt.Sprintf("%.1f %%", 100*page.Band.Coverage), Label: fmt.Sprintf("of fresh targets inside the %.0f %% interval", 100*page.Band.Level),
	})
	path := d.path("report.html")
	if err := atomicfile.WriteFile(c.Context, path, func(w io.Writer) error { return report.Write(w, page) }); err != nil {
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
func (d *demo) classifier(ctx context.Context, name string) (report.Comparison, []report.Fact, error) {
	var set report.Comparison
	model, err := featurize.Open(ctx, d.path(name+".onnx"), d.Options)
	if err != nil {
		return set, nil, err
	}
	defer model.Close()
	r := &reading{stderr: d.stderr}
	if err := r.loadPreprocess(d.path("digits.preprocess.json")); err != nil {
		return set, nil, err
	}
	var sets [3]*inputs.Set
	var batches [3]ood.Batch
	for i, file := range []string{"digits_fit.npz", "digits_test.npz", "letters.npz"} {
		if sets[i], err = r.open(ctx, d.path(file), "", nil); err != nil {
			return set, nil, err
		}
		if batches[i], err = r.features(ctx, model, name+" on "+file, sets[i]); err != nil {
			return set, nil, err
		}
	}
	train, in, out := batches[0], batches[1], batches[2]
	out.Labels = nil

	p := newProgress(d.stderr, name)
	defer p.end()
	set.Report, err = compare.Run(ctx, compare.Options{
		Methods: detectors(),
		Training: ood.Training{
			Batch: train, Last: model.Last(), Trainer: d.trainer, Network: model.Network(), InputScale: r.options.InputScale(), Seed: d.seed,
		},
		In: in, Out: out, Resamples: demoResamples,
		Progress: overall(p, len(detectors())),
	})
	if err != nil {
		return set, nil, err
	}
	p.end()
	set.Report.Model, set.Report.ModelSHA256 = name+".onnx", model.SHA256()
	printf(d.stdout, "%s: ", name)
	if err := printReport(d.stdout, set.Report); err != nil {
		return set, nil, err
	}
	fmt.Fprintln(d.stdout)

	b, err := attach.Fit(ctx, attach.Inputs{
		Base:       model.Base(attach.Classification),
		Preprocess: r.raw, Layout: string(r.options.Layout), Batch: train, Last: model.Last(), Trainer: d.trainer, Seed: d.seed,
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
	inside, err := predictor.Predict(ctx, attach.Rows{Batch: in})
	if err != nil {
		return set, nil, err
	}
	outside, err := predictor.Predict(ctx, attach.Rows{Batch: out})
	if err != nil {
		return set, nil, err
	}
	set.SuspiciousLead = "The highest scores of the attached detector among equally many digits and letters, with conformal p-values."
	if set.Suspicious, err = mostSuspicious(ctx, sets[1], sets[2], inside, outside); err != nil {
		return set, nil, err
	}
	facts := []report.Fact{
		{Value: fmt.Sprintf("%.1f %%", 100*flagged(outside)), Label: "of letters flagged on " + name},
		{Value: fmt.Sprintf("%.1f %%", 100*flagged(inside)), Label: fmt.Sprintf("of fresh digits flagged (asked: at most %.0f %%)", 100*b.Calibration.Alpha)},
	}
	return set, facts, nil
}

func flagged(rows []attach.Prediction) float64 {
	n := 0
	for _, p := range rows {
		if p.Flag {
			n++
		}
	}
	return float64(n) / float64(len(rows))
}

// mostSuspicious picks the images with the highest scores among equally many
// in-domain and out-of-domain ones.
func mostSuspicious(ctx context.Context, in, out *inputs.Set, inside, outside []attach.Prediction) ([]report.Example, error) {
	const shown = 24
	type row struct {
		attach.Prediction
		set     *inputs.Set
		index   int
		outside bool
	}
	n := min(in.Len(), out.Len())
	rows := make([]row, 0, 2*n)
	for i := range n {
		rows = append(rows, row{inside[i], in, i, false}, row{outside[i], out, i, true})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.Score, a.Score) })
	var examples []report.Example
	for _, r := range rows[:min(shown, len(rows))] {
		var img image.Image
		img, err := r.set.Thumbnail(ctx, r.index)
		if err != nil {
			return nil, err
		}
		examples = append(examples, report.Example{Image: img, Caption: fmt.Sprintf("p %.4f", r.PValue), Outside: r.outside})
	}
	return examples, nil
}

// regressor attaches a quantile head and certificates to the toy network, as in
// figure 1 of Tagasovska & Lopez-Paz (2019).
func (d *demo) regressor(ctx context.Context) (*report.Band, error) {
	const from, to, points = -5.0, 5.0, 400
	model, err := featurize.Open(ctx, d.path("toy_regressor.onnx"), d.Options)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	r := &reading{stderr: d.stderr}
	in := attach.Inputs{Level: .95, Seed: d.seed, Trainer: d.trainer, Last: model.Last()}
	in.Base = model.Base(attach.Regression)
	read := func(file string) (ood.Batch, blas32.General, *inputs.Set, error) {
		set, err := r.open(ctx, d.path(file), "", nil)
		if err != nil {
			return ood.Batch{}, blas32.General{}, nil, err
		}
		y, _ := set.Targets()
		b, err := r.features(ctx, model, "toy_regressor on "+file, set)
		b.Labels = nil
		return b, y, set, err
	}
	var fitted *inputs.Set
	if in.Batch, in.Targets, fitted, err = read("toy_fit.npz"); err != nil {
		return nil, err
	}
	if in.Cal, in.CalTargets, _, err = read("toy_cal.npz"); err != nil {
		return nil, err
	}
	in.QuantileParams = ood.Params{"hidden": "100x100"}
	p := newProgress(d.stderr, "toy_regressor")
	defer p.end()
	in.Progress = func(stage string, share float64) { p.share(share, fmt.Sprintf("%s %.0f %%", stage, 100*share)) }
	b, err := attach.Fit(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := b.Save(ctx, d.path("toy_regressor.attach")); err != nil {
		return nil, err
	}

	band := &report.Band{Title: "A regressor and both its uncertainties", Alpha: b.Calibration.Alpha, Level: b.Calibration.Level}
	x := make([]float32, points)
	for i := range x {
		x[i] = float32(from + (to-from)*float64(i)/(points-1))
		band.X = append(band.X, float64(x[i]))
	}
	batch, err := model.All(ctx, featurize.Slice([]int{points, 1}, x), points, nil)
	if err != nil {
		return nil, err
	}
	predictor, err := b.Predictor(attach.PredictOptions{})
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
	trainX, err := fitted.All(ctx)
	if err != nil {
		return nil, err
	}
	for i := range trainX.Rows {
		band.TrainX = append(band.TrainX, float64(trainX.Data[i*trainX.Stride]))
		band.TrainY = append(band.TrainY, float64(in.Targets.Data[i*in.Targets.Stride]))
	}

	test, y, _, err := read("toy_test.npz")
	if err != nil {
		return nil, err
	}
	fresh, err := predictor.Predict(ctx, attach.Rows{Batch: test})
	if err != nil {
		return nil, err
	}
	for i, p := range fresh {
		if v := float64(y.Data[i*y.Stride]); p.Targets[0].Lower <= v && v <= p.Targets[0].Upper {
			band.Coverage += 1 / float64(len(fresh))
		}
		band.MeanGap += (p.Targets[0].Upper - p.Targets[0].Lower) / float64(len(fresh))
	}
	_, err = printf(d.stdout, "toy_regressor: %.0f %% intervals cover %.1f %% of %d fresh rows, mean width %.2f\n",
		100*band.Level, 100*band.Coverage, len(fresh), band.MeanGap)
	return band, err
}
