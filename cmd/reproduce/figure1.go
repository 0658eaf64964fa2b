package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// figure1Experiment is the paper's figure 1: one network of two hidden layers of
// 100 units is trained by simultaneous quantile regression on data with a gap.
// Its quantiles are the aleatoric uncertainty, and certificates of its last
// hidden layer, at the median, the epistemic one.
var figure1Experiment = experiment{
	name:  "figure1",
	doc:   "both uncertainties of one network on a line with a gap in its data; needs no --data",
	uses:  []string{"seeds", "epochs", "ort-lib"},
	flags: func(flags *flag.FlagSet, s *settings) { figureFlags(flags, s, "figure1") },
	run:   runFigure1,
}

// figureSettings are the flags of figures beyond those that experiments share.
type figureSettings struct {
	out    string
	levels string
	decay  float64
}

func figureFlags(flags *flag.FlagSet, s *settings, name string) {
	flags.StringVar(&s.figure.out, "out", name, "`folder` for results and pictures")
}

const (
	figure1Rows   = 1000
	figure1Alpha  = .05
	figure1Epochs = 500
	figure1Batch  = 128
)

// figure1Levels are those of the interval, and what the paper draws besides.
func figure1Levels() []float64 { return []float64{figure1Alpha / 2, .5, .65, .8, 1 - figure1Alpha/2} }

// certificateVariant is one way to fit certificates of squared error.
type certificateVariant struct {
	name    string
	options heads.CertificatesOptions
}

// figure1Certificates are the paper's, as many as hidden units, trained with a
// penalty, and the exact ones.
func figure1Certificates(epochs, seed int) []certificateVariant {
	return []certificateVariant{
		{"trained", heads.CertificatesOptions{
			K: 100, Loss: heads.MSE, Trained: true, Lambda: 1, Epochs: epochs, BatchSize: figure1Batch, Seed: uint64(seed),
		}},
		{"exact", heads.CertificatesOptions{}},
		{"exact, unit norm", heads.DefaultCertificates()},
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

func runFigure1(ctx context.Context, s settings) error {
	if s.epochs == 0 {
		s.epochs = figure1Epochs
	}
	if err := os.MkdirAll(s.figure.out, 0o755); err != nil {
		return err
	}
	shown := newProgress(s.stderr, 1)
	for range s.seeds {
		shown.expect("figure1", 1)
	}
	var results []toyResult
	var curves toyCurves
	for seed := range s.seeds {
		shown.start(seed, "figure1", 1)
		r, c, err := s.fitToy(ctx, seed)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if results = append(results, r); seed == 0 {
			curves = c
		}
		shown.finish(seed, fmt.Sprintf("seed %d", seed))
	}
	printFigure1(s.stdout, results)
	return curves.save(filepath.Join(s.figure.out, "figure1"), results)
}

// fitToy draws data and fits both uncertainties to them.
func (s settings) fitToy(ctx context.Context, seed int) (r toyResult, c toyCurves, err error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	train, held, test := drawToy(rng, figure1Rows), drawToy(rng, figure1Rows), drawToy(rng, 2*figure1Rows)
	gap := drawBetween(rng, figure1Rows, gapFrom, gapTo)
	beyond := append(drawBetween(rng, figure1Rows/2, drawFrom, dataFrom), drawBetween(rng, figure1Rows/2, dataTo, drawTo)...)
	c = toyCurves{data: train}
	for i := range 301 {
		c.x = append(c.x, drawFrom+(drawTo-drawFrom)*float64(i)/300)
	}

	head, err := heads.FitSQR(ctx, asColumn(train.x), asColumn(train.y), s.trainer, heads.SQROptions{
		Hidden: []int{100, 100}, Epochs: s.epochs, BatchSize: figure1Batch, Seed: uint64(seed),
	})
	if err != nil {
		return r, c, err
	}
	if err := r.measureIntervals(head, held, test); err != nil {
		return r, c, err
	}
	drawn := head.Quantiles(asColumn(c.x), figure1Levels())
	for l := range figure1Levels() {
		c.quantiles = append(c.quantiles, levelOf(drawn, l))
	}

	variants := figure1Certificates(s.epochs, seed)
	grid := make([]heads.CertificatesOptions, len(variants))
	for i, v := range variants {
		grid[i] = v.options
	}
	fitted, err := heads.FitCertificatesGrid(ctx, lastHidden(head, train.x), s.trainer, grid, nil)
	if err != nil {
		return r, c, err
	}
	for i, v := range variants {
		score := func(x []float64) []float64 { return fitted[i].Score(nil, lastHidden(head, x)) }
		inHeld := score(held.x)
		slices.Sort(inHeld)
		threshold := stat.Quantile(1-figure1Alpha, stat.Empirical, inHeld, nil)
		e, err := newEpistemic(v.name, score(test.x), score(gap), score(beyond), threshold)
		if err != nil {
			return r, c, err
		}
		r.epistemic = append(r.epistemic, e)
		c.variants, c.scores, c.threshold = append(c.variants, v.name), append(c.scores, score(c.x)), append(c.threshold, threshold)
	}
	return r, c, nil
}

// measureIntervals measures them as they are, and conformalized on held-out
// rows.
func (r *toyResult) measureIntervals(head *heads.SQR, held, test gapToy) error {
	levels := figure1Levels()
	q := head.Quantiles(asColumn(test.x), levels)
	for l, tau := range levels {
		var sum float64
		for i, x := range test.x {
			d := q.At(i, 0, l) - toyQuantile(x, tau)
			sum += d * d
		}
		r.off = append(r.off, math.Sqrt(sum/float64(len(test.x))))
	}
	lower, upper := levelOf(q, 0), levelOf(q, len(levels)-1)
	r.raw = covered{calibrate.PICP(lower, upper, test.y), calibrate.MPIW(lower, upper)}
	heldLower, heldUpper := interval(head, asColumn(held.x), figure1Alpha)
	cqr, err := calibrate.NewCQR(heldLower, heldUpper, held.y)
	if err != nil {
		return err
	}
	for i := range lower {
		lower[i], upper[i] = cqr.Interval(lower[i], upper[i], figure1Alpha)
	}
	r.conformal = covered{calibrate.PICP(lower, upper, test.y), calibrate.MPIW(lower, upper)}
	return nil
}

func newEpistemic(name string, inside, gap, beyond []float64, threshold float64) (e epistemic, err error) {
	above := func(scores []float64) (share float64) {
		for _, v := range scores {
			share += indicator(v > threshold) / float64(len(scores))
		}
		return share
	}
	e = epistemic{
		name: name, inside: stat.Mean(inside, nil), gap: stat.Mean(gap, nil), beyond: stat.Mean(beyond, nil),
		alarm: above(inside), gapHit: above(gap), farther: above(beyond),
	}
	if e.gapAUROC, err = ood.AUROC(inside, gap); err != nil {
		return e, err
	}
	e.beyondAUROC, err = ood.AUROC(inside, beyond)
	return e, err
}

// lastHidden is the last hidden layer of a regression of one target on one
// column, n×h, at the median: where the level enters as 0.
func lastHidden(head *heads.SQR, x []float64) blas32.General {
	raw := asColumn(x)
	in := blas32.General{Rows: raw.Rows, Cols: 2, Stride: 2, Data: make([]float32, 2*raw.Rows)}
	head.X.Apply(blas32.General{Rows: raw.Rows, Cols: 1, Stride: 2, Data: in.Data}, raw)
	layers := head.Networks[0].Layers
	hidden := heads.Network{Layers: layers[:len(layers)-1]}.Apply(in)
	for i, v := range hidden.Data {
		hidden.Data[i] = max(v, 0)
	}
	return hidden
}

// levelOf are the quantiles of the first target at one level.
func levelOf(q heads.Quantiles, l int) []float64 {
	out := make([]float64, q.Rows)
	for i := range out {
		out[i] = q.At(i, 0, l)
	}
	return out
}
