// Package figure1 reproduces the paper's figure 1. It trains one network with two hidden
// layers of 100 units by simultaneous quantile regression, on data with a gap. The
// predicted quantiles give the aleatoric uncertainty. Certificates of the last hidden
// layer, evaluated at the median, give the epistemic uncertainty.
package figure1

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
)

// Experiment is the figure1 command.
var Experiment = experiment.Experiment{
	Name:   "figure1",
	Doc:    "both uncertainties of one network on a line with a gap in its data; needs no --data",
	Shared: []string{"seeds", "epochs", "out", "ort-lib"},
	New: func(_ *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		return func(ctx context.Context) error { return run(ctx, s) }
	},
}

const (
	trainRows     = 1000
	alpha         = .05
	defaultEpochs = 500
	batchSize     = 128
)

// levels returns the quantile levels of the interval, and the other levels of the paper's
// figure.
func levels() []float64 { return []float64{alpha / 2, .5, .65, .8, 1 - alpha/2} }

// certificateVariant is one way to fit certificates of squared error.
type certificateVariant struct {
	name   string
	method ood.Method
	params ood.Params
}

// variants returns three variants. The first is the paper's: as many certificates as hidden
// units, trained with a penalty. The other two solve for the certificates exactly.
func variants(epochs int) []certificateVariant {
	exact, _ := attach.MethodByName("certificates")
	trained, _ := attach.MethodByName("certificates-trained")
	return []certificateVariant{
		{"trained", trained, ood.Params{"k": 100., "loss": "mse", "lambda": 1., "epochs": epochs, "batch": batchSize}},
		{"exact", exact, ood.Params{"unit_norm": false}},
		{"exact, unit norm", exact, nil},
	}
}

// epistemic reports how well one variant separates rows outside the data from rows inside.
type epistemic struct {
	name                                     string
	inside, gap, beyond                      float64 // mean scores of rows inside the data, in the gap and beyond the data
	gapAUROC, beyondAUROC                    float64 // AUROC against new rows inside the data
	flaggedInside, flaggedGap, flaggedBeyond float64 // fraction of rows above the threshold: inside the data, in the gap, beyond the data
}

// intervalSummary holds the coverage and the mean width of intervals.
type intervalSummary struct{ coverage, width float64 }

func summarise(e intervals.Ends) intervalSummary {
	return intervalSummary{experiment.PICP(e.Lower, e.Upper, e.Y), experiment.MPIW(e.Lower, e.Upper)}
}

// toyResult holds the measurements of one seed.
type toyResult struct {
	raw, conformal intervalSummary // intervals of new rows inside the data
	quantileErrors []float64       // root mean square error against the true quantiles, by level
	epistemic      []epistemic
}

// toyCurves holds the curves of the figure.
type toyCurves struct {
	data      gapToy
	x         []float64
	quantiles [][]float64 // by level
	variants  []string
	scores    [][]float64 // by variant
	threshold []float64   // by variant: 95 % of held-out rows inside the data score at most this
}

func run(ctx context.Context, s *experiment.Settings) error {
	if s.Epochs == 0 {
		s.Epochs = defaultEpochs
	}
	results := make([]toyResult, s.Seeds)
	var curves toyCurves
	var jobs []experiment.Job
	for seed := range s.Seeds {
		jobs = append(jobs, experiment.Job{
			Kind: "figure1", Cost: 1, Seed: seed, What: fmt.Sprintf("seed %d", seed),
			Run: func(ctx context.Context, _ func(float64)) error {
				r, c, err := fitToy(ctx, s, seed)
				if results[seed] = r; seed == 0 {
					curves = c
				}
				return err
			},
		})
	}
	if err := experiment.RunJobs(ctx, s, jobs); err != nil {
		return err
	}
	printResults(s.Stdout, results)
	return curves.save(filepath.Join(s.Out, "figure1"), results)
}

// fitToy draws data, fits the network and the certificates, and measures both uncertainties.
func fitToy(ctx context.Context, s *experiment.Settings, seed int) (r toyResult, c toyCurves, err error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	train, calibration, test := drawToy(rng, trainRows), drawToy(rng, trainRows), drawToy(rng, 2*trainRows)
	gap := drawBetween(rng, trainRows, gapFrom, gapTo)
	beyond := append(drawBetween(rng, trainRows/2, drawFrom, dataFrom), drawBetween(rng, trainRows/2, dataTo, drawTo)...)
	c = toyCurves{data: train}
	for i := range 301 {
		c.x = append(c.x, drawFrom+(drawTo-drawFrom)*float64(i)/300)
	}

	head, err := fitHead(ctx, s.Trainer, train, uint64(seed), ood.Params{"hidden": 100., "layers": 2., "epochs": s.Epochs, "batch": batchSize})
	if err != nil {
		return r, c, err
	}
	if err := r.measureIntervals(head, calibration, test); err != nil {
		return r, c, err
	}
	predicted := head.Quantiles(experiment.AsColumn(c.x), levels())
	for l := range levels() {
		c.quantiles = append(c.quantiles, experiment.Level(predicted, l))
	}

	hidden := ood.Training{Batch: ood.Batch{Features: lastHidden(head, train.x)}, Trainer: s.Trainer, Seed: uint64(seed)}
	for _, v := range variants(s.Epochs) {
		fitted, err := fitting.Fit(ctx, v.method, hidden, v.params)
		if err != nil {
			return r, c, err
		}
		var scoreErr error
		score := func(x []float64) []float64 {
			scores, err := fitted.Score(ctx, nil, ood.Batch{Features: lastHidden(head, x)})
			scoreErr = cmp.Or(scoreErr, err)
			return scores
		}
		calibrationScores := score(calibration.x)
		slices.Sort(calibrationScores)
		threshold := stat.Quantile(1-alpha, stat.Empirical, calibrationScores, nil)
		e, err := newEpistemic(v.name, score(test.x), score(gap), score(beyond), threshold)
		if err := cmp.Or(scoreErr, err); err != nil {
			return r, c, err
		}
		r.epistemic = append(r.epistemic, e)
		c.variants, c.scores, c.threshold = append(c.variants, v.name), append(c.scores, score(c.x)), append(c.threshold, threshold)
	}
	return r, c, nil
}

// fitHead fits one network for all quantile levels.
func fitHead(ctx context.Context, tr train.Trainer, toy gapToy, seed uint64, p ood.Params) (*mlp.Conditional, error) {
	sqr, _ := attach.MethodByName("sqr")
	fitted, err := fitting.Fit(ctx, sqr, ood.Training{
		Batch: ood.Batch{Features: experiment.AsColumn(toy.x)}, Targets: experiment.AsColumn(toy.y), Trainer: tr, Seed: seed,
	}, p)
	if err != nil {
		return nil, err
	}
	return fitted.Fitted().(*mlp.Conditional), nil
}

// measureIntervals measures the intervals of test rows, both unchanged and conformalized on
// calibration rows. It also measures the errors of the quantiles.
func (r *toyResult) measureIntervals(head *mlp.Conditional, calibration, test gapToy) error {
	q := head.Quantiles(experiment.AsColumn(test.x), levels())
	for l, tau := range levels() {
		var sum float64
		for i, x := range test.x {
			d := float64(q.Row(i, 0)[l]) - toyQuantile(x, tau)
			sum += d * d
		}
		r.quantileErrors = append(r.quantileErrors, math.Sqrt(sum/float64(len(test.x))))
	}
	raw := intervals.EndsOf(q, test.y)
	calibrationEnds := intervals.EndsOf(head.Quantiles(experiment.AsColumn(calibration.x), []float64{alpha / 2, 1 - alpha/2}), calibration.y)
	conformal, err := raw.Calibrated(calibrationEnds, calibrate.IntervalOptions{}, alpha)
	r.raw, r.conformal = summarise(raw), summarise(conformal)
	return err
}

func newEpistemic(name string, inside, gap, beyond []float64, threshold float64) (e epistemic, err error) {
	fractionAbove := func(scores []float64) (fraction float64) {
		for _, v := range scores {
			fraction += experiment.Indicator(v > threshold) / float64(len(scores))
		}
		return fraction
	}
	e = epistemic{
		name: name, inside: stat.Mean(inside, nil), gap: stat.Mean(gap, nil), beyond: stat.Mean(beyond, nil),
		flaggedInside: fractionAbove(inside), flaggedGap: fractionAbove(gap), flaggedBeyond: fractionAbove(beyond),
	}
	if e.gapAUROC, err = measure.AUROC(inside, gap); err != nil {
		return e, err
	}
	e.beyondAUROC, err = measure.AUROC(inside, beyond)
	return e, err
}

// lastHidden returns the activations of the last hidden layer, n×h, for a regression of one
// target on one input. They belong to the median because the input for the level is 0.
func lastHidden(head *mlp.Conditional, x []float64) blas32.General {
	raw := experiment.AsColumn(x)
	in := blas32.General{Rows: raw.Rows, Cols: 2, Stride: 2, Data: make([]float32, 2*raw.Rows)}
	head.X.Apply(blas32.General{Rows: raw.Rows, Cols: 1, Stride: 2, Data: in.Data}, raw)
	layers := head.Networks[0].Layers
	hidden := train.Network{Layers: layers[:len(layers)-1]}.Apply(in)
	for i, v := range hidden.Data {
		hidden.Data[i] = max(v, 0)
	}
	return hidden
}
