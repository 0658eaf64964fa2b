// Package figure1 is the paper's figure 1: one network of two hidden layers of
// 100 units is trained by simultaneous quantile regression on data with a gap.
// Its quantiles are the aleatoric uncertainty, and certificates of its last
// hidden layer, at the median, the epistemic one.
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

// Experiment is what the command runs.
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

// levels are those of the interval, and what the paper draws besides.
func levels() []float64 { return []float64{alpha / 2, .5, .65, .8, 1 - alpha/2} }

// certificateVariant is one way to fit certificates of squared error.
type certificateVariant struct {
	name   string
	method ood.Method
	params ood.Params
}

// variants are the paper's, as many as hidden units, trained with a
// penalty, and the exact ones.
func variants(epochs int) []certificateVariant {
	exact, _ := attach.MethodByName("certificates")
	trained, _ := attach.MethodByName("certificates-trained")
	return []certificateVariant{
		{"trained", trained, ood.Params{"k": 100., "loss": "mse", "lambda": 1., "epochs": epochs, "batch": batchSize}},
		{"exact", exact, ood.Params{"unit_norm": false}},
		{"exact, unit norm", exact, nil},
	}
}

// epistemic is how one variant tells rows outside of the data from those inside.
type epistemic struct {
	name                   string
	inside, gap, beyond    float64 // mean score
	gapAUROC, beyondAUROC  float64 // against fresh rows inside
	alarm, gapHit, farther float64 // share of rows above the threshold: inside, in the gap, beyond the data
}

// covered is the coverage of intervals and their mean width.
type covered struct{ coverage, width float64 }

func coveredBy(e intervals.Ends) covered {
	return covered{experiment.PICP(e.Lower, e.Upper, e.Y), experiment.MPIW(e.Lower, e.Upper)}
}

// toyResult is what one seed measures.
type toyResult struct {
	raw, conformal covered   // of the interval, on fresh rows inside
	off            []float64 // root mean square distance from true quantiles, per level
	epistemic      []epistemic
}

// toyCurves are what the picture shows.
type toyCurves struct {
	data      gapToy
	x         []float64
	quantiles [][]float64 // per level
	variants  []string
	scores    [][]float64 // per variant
	threshold []float64   // per variant: 95 % of held-out rows inside score less
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
	show(s.Stdout, results)
	return curves.save(filepath.Join(s.Out, "figure1"), results)
}

// fitToy draws data and fits both uncertainties to them.
func fitToy(ctx context.Context, s *experiment.Settings, seed int) (r toyResult, c toyCurves, err error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	train, held, test := drawToy(rng, trainRows), drawToy(rng, trainRows), drawToy(rng, 2*trainRows)
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
	if err := r.measureIntervals(head, held, test); err != nil {
		return r, c, err
	}
	drawn := head.Quantiles(experiment.AsColumn(c.x), levels())
	for l := range levels() {
		c.quantiles = append(c.quantiles, experiment.Level(drawn, l))
	}

	hidden := ood.Training{Batch: ood.Batch{Features: lastHidden(head, train.x)}, Trainer: s.Trainer, Seed: uint64(seed)}
	for _, v := range variants(s.Epochs) {
		fitted, err := fitting.Fit(ctx, v.method, hidden, v.params)
		if err != nil {
			return r, c, err
		}
		var failed error
		score := func(x []float64) []float64 {
			scores, err := fitted.Score(ctx, nil, ood.Batch{Features: lastHidden(head, x)})
			failed = cmp.Or(failed, err)
			return scores
		}
		inHeld := score(held.x)
		slices.Sort(inHeld)
		threshold := stat.Quantile(1-alpha, stat.Empirical, inHeld, nil)
		e, err := newEpistemic(v.name, score(test.x), score(gap), score(beyond), threshold)
		if err := cmp.Or(failed, err); err != nil {
			return r, c, err
		}
		r.epistemic = append(r.epistemic, e)
		c.variants, c.scores, c.threshold = append(c.variants, v.name), append(c.scores, score(c.x)), append(c.threshold, threshold)
	}
	return r, c, nil
}

// fitHead fits one network to all levels.
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

// measureIntervals measures them as they are, and conformalized on held-out
// rows.
func (r *toyResult) measureIntervals(head *mlp.Conditional, held, test gapToy) error {
	q := head.Quantiles(experiment.AsColumn(test.x), levels())
	for l, tau := range levels() {
		var sum float64
		for i, x := range test.x {
			d := float64(q.Row(i, 0)[l]) - toyQuantile(x, tau)
			sum += d * d
		}
		r.off = append(r.off, math.Sqrt(sum/float64(len(test.x))))
	}
	raw := intervals.EndsOf(q, test.y)
	on := intervals.EndsOf(head.Quantiles(experiment.AsColumn(held.x), []float64{alpha / 2, 1 - alpha/2}), held.y)
	conformal, err := raw.Calibrated(on, calibrate.IntervalOptions{}, alpha)
	r.raw, r.conformal = coveredBy(raw), coveredBy(conformal)
	return err
}

func newEpistemic(name string, inside, gap, beyond []float64, threshold float64) (e epistemic, err error) {
	above := func(scores []float64) (share float64) {
		for _, v := range scores {
			share += experiment.Indicator(v > threshold) / float64(len(scores))
		}
		return share
	}
	e = epistemic{
		name: name, inside: stat.Mean(inside, nil), gap: stat.Mean(gap, nil), beyond: stat.Mean(beyond, nil),
		alarm: above(inside), gapHit: above(gap), farther: above(beyond),
	}
	if e.gapAUROC, err = measure.AUROC(inside, gap); err != nil {
		return e, err
	}
	e.beyondAUROC, err = measure.AUROC(inside, beyond)
	return e, err
}

// lastHidden is the last hidden layer of a regression of one target on one
// column, n×h, at the median: where the level enters as 0.
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
