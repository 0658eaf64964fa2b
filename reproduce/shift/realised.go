package shift

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Realised is the realised command. It compares the mean coverage over draws of calibration rows
// with the guarantee, for each way in which calibration rows are used.
var Realised = experiment.Experiment{
	Name:   "realised",
	Doc:    "realised coverage over draws of calibration rows: rows that teach the interval model, and weights",
	Shared: []string{"seeds", "parallel", "out"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "1000", "number of draws")
		sizes := flags.String("cal", "30,100,300,1000,5000", "numbers of calibration rows, `a,b`")
		return func(ctx context.Context) error {
			list, err := experiment.Numbers("--cal", *sizes)
			if err != nil {
				return err
			}
			return runRealised(ctx, s, list)
		}
	},
}

// draw is the result of one draw of calibration rows.
type draw struct {
	coverage   float64 // of new rows
	guaranteed float64 // mean coverage that the guarantee gives with as many rows
	refused    bool
}

// way is a way in which calibration rows are used. Its function measures one draw.
type way struct {
	name string
	run  func(ctx context.Context, n int, seed uint64) (draw, error)
}

func ways() []way {
	intervals := func(from, score string) func(context.Context, int, uint64) (draw, error) {
		return func(ctx context.Context, n int, seed uint64) (draw, error) {
			return drawIntervals(ctx, from, score, n, seed)
		}
	}
	return []way{
		{"interval model learns from fit rows", intervals("fit", "")},
		{"interval model learns from half of the calibration rows", intervals("calibration", "")},
		{"default: automatic choice of errors, interval model and score", intervals("", "")},
		{"interval score ridge", intervals("fit", conformal.Ridge)},
		{"density-ratio weights, shift of 0.5", drawCovariate},
		{"label-shift weights", drawLabels},
	}
}

func runRealised(ctx context.Context, s *experiment.Settings, sizes []float64) error {
	fmt.Fprintf(s.Stdout, "mean coverage at level %g over %d draws of calibration rows, its standard error, and the difference from the guarantee in standard errors\n", 1-alpha, s.Seeds)
	lines := [][]string{{"way", "n_cal", "draws", "refused", "coverage", "stderr", "guaranteed", "z"}}
	var jobs []experiment.Job
	results := map[[2]int][]draw{}
	for w, way := range ways() {
		for k, n := range sizes {
			draws := make([]draw, s.Seeds)
			results[[2]int{w, k}] = draws
			jobs = append(jobs, experiment.Job{Kind: way.name, Cost: n, What: fmt.Sprintf("%s, %g rows", way.name, n), Run: func(ctx context.Context, progress func(float64)) error {
				for seed := range draws {
					var err error
					if draws[seed], err = way.run(ctx, int(n), uint64(seed)); err != nil {
						return fmt.Errorf("%s: %w", way.name, err)
					}
					progress(float64(seed+1) / float64(len(draws)))
				}
				return nil
			}})
		}
	}
	if err := experiment.RunJobs(ctx, s, jobs); err != nil {
		return err
	}
	for w, way := range ways() {
		fmt.Fprintf(s.Stdout, "%s\n", way.name)
		for k, n := range sizes {
			var covered, guaranteed []float64
			for _, d := range results[[2]int{w, k}] {
				if !d.refused {
					covered, guaranteed = append(covered, d.coverage), append(guaranteed, d.guaranteed)
				}
			}
			refused := s.Seeds - len(covered)
			if len(covered) < 2 {
				fmt.Fprintf(s.Stdout, "  n_cal %5g: %d of %d draws refused\n", n, refused, s.Seeds)
				lines = append(lines, experiment.Cells(6, way.name, n, s.Seeds, refused, "", "", "", ""))
				continue
			}
			mean, deviation := stat.MeanStdDev(covered, nil)
			stderr, want := deviation/math.Sqrt(float64(len(covered))), stat.Mean(guaranteed, nil)
			fmt.Fprintf(s.Stdout, "  n_cal %5g: coverage %.4f ± %.4f, guaranteed %.4f, z %+.1f, %d draws refused\n", n, mean, stderr, want, (mean-want)/stderr, refused)
			lines = append(lines, experiment.Cells(6, way.name, n, s.Seeds, refused, mean, stderr, want, (mean-want)/stderr))
		}
	}
	return experiment.WriteCSV(filepath.Join(s.Out, "realised.csv"), lines)
}

const (
	drawTests = 200 // number of new rows for each draw of interval rows and labels
	fitRows   = 500
	// choiceRows is the number of fit rows if Fit chooses the interval model, which takes long.
	choiceRows = 200
	memorised  = .3 // the error of the model on fit rows, as a fraction of its error on others
)

// drawIntervals measures intervals around a model that has memorised the fit rows. Errors grow
// with the first feature. A small forest predicts their quantiles, or the interval model that
// Fit chooses.
func drawIntervals(ctx context.Context, from, score string, n int, seed uint64) (draw, error) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	sample := func(n int, share float64) (ood.Batch, blas32.General) {
		b, y := ood.Batch{Features: rows.New(n, 2), Logits: rows.New(n, 1)}, rows.New(n, 1)
		for i := range n {
			x := rows.Row(b.Features, i)
			x[0], x[1] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
			e := math.Exp(float64(x[0])/2) * rng.NormFloat64()
			y.Data[i] = x[1] + float32(e)
			b.Logits.Data[i] = x[1] + float32((1-share)*e)
		}
		return b, y
	}
	in := attach.FitOptions{Base: attach.Base{Task: attach.Regression, Residual: true}, SkipDetector: true, Level: 1 - alpha, Seed: seed, IntervalFit: from, IntervalScore: score}
	learning := choiceRows
	if from != "" {
		learning = fitRows
		in.IntervalModel, _ = attach.MethodByName("quantile-forest")
		in.IntervalParams = ood.Params{"n_estimators": 3., "min_samples_leaf": 10.}
	}
	in.Batch, in.Targets = sample(learning, memorised)
	in.Cal, in.CalTargets = sample(n, 1)
	b, err := attach.Fit(ctx, in)
	if err != nil {
		return draw{}, err
	}
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		return draw{}, err
	}
	fresh, y := sample(drawTests, 1)
	predictions, err := p.Predict(ctx, attach.Rows{Batch: fresh})
	d := draw{guaranteed: hypothesis.ExpectedCoverage(b.Calibration.IntervalRows(), alpha)}
	for i, prediction := range predictions {
		t := prediction.Targets[0]
		d.coverage += experiment.Indicator(t.Lower <= float64(y.Data[i]) && float64(y.Data[i]) <= t.Upper) / drawTests
	}
	return d, err
}

// drawCovariate measures intervals with the weights of a density ratio.
func drawCovariate(ctx context.Context, n int, seed uint64) (draw, error) {
	var r result
	err := r.add(ctx, n, .5, seed)
	return draw{r.estimated, 1 - alpha, r.refused > 0}, err
}

// drawLabels measures prediction sets with weights by class. An overconfident classifier has
// three classes, of which the one that it recognises worst becomes the most frequent.
func drawLabels(ctx context.Context, n int, seed uint64) (draw, error) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	distance := []float64{3, 2, 1}
	sample := func(n int, shares ...float64) ood.Batch {
		k := len(shares)
		b := ood.Batch{Features: rows.New(n, k), Logits: rows.New(n, k), Labels: make([]int, n)}
		for i := range n {
			u, class := rng.Float64(), 0
			for ; class < k-1 && u >= shares[class]; class++ {
				u -= shares[class]
			}
			x := rows.Row(b.Features, i)
			for j := range x {
				x[j] = float32(rng.NormFloat64())
			}
			x[class] += float32(distance[class])
			for j, v := range x {
				rows.Row(b.Logits, i)[j] = float32(2 * distance[j] * (float64(v) - distance[j]/2))
			}
			b.Labels[i] = class
		}
		return b
	}
	cal, target, fresh := sample(n, .4, .4, .2), sample(n, .2, .3, .5), sample(drawTests, .2, .3, .5)
	s, err := calibrate.NewLabelShift(ctx, cal, target)
	if err != nil {
		return draw{refused: true}, ctx.Err()
	}
	classes, err := calibrate.NewClassCalibration(cal.Logits, cal.Labels)
	if err != nil {
		return draw{}, err
	}
	classes.Weights = rows.Pick(s.Weights, cal.Labels)
	sets, err := classes.Sets(calibrate.SetOptions{}, alpha)
	if err != nil {
		return draw{}, err
	}
	d := draw{guaranteed: 1 - alpha}
	for i, set := range sets.WithClassWeights(s.Weights).Predict(fresh.Logits, 0) {
		d.coverage += experiment.Indicator(slices.Contains(set, fresh.Labels[i])) / drawTests
	}
	return d, nil
}
