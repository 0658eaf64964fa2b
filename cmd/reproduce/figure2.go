package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
)

// figure2Experiment is the paper's figure of crossing quantiles: levels that
// are estimated separately, by a network each, against one network of all
// levels.
var figure2Experiment = experiment{
	name:         "figure2",
	doc:          "crossing quantiles of levels trained separately and jointly; toys need no --data",
	uses:         []string{"data", "sets", "seeds", "epochs", "ort-lib"},
	flags:        figure2Flags,
	optionalData: true,
	run:          runFigure2,
}

func figure2Flags(flags *flag.FlagSet, s *settings) {
	figureFlags(flags, s, "figure2")
	flags.StringVar(&s.figure.levels, "levels", ".1,.2,.3,.4,.5,.6,.7,.8,.9", "increasing quantile `levels`, at least two")
	flags.Float64Var(&s.figure.decay, "weight-decay", .001, "weight `decay` of all networks, added to the gradient")
}

// crossingMethods are the ways to get quantiles at several levels, in order.
func crossingMethods() []string {
	return []string{"separate", "separate, sorted", "joint", "joint, sorted"}
}

// crossingResult is what one method does on the test rows of one split.
type crossingResult struct {
	set    string
	seed   int
	method string
	rows   float64 // share of rows of which any two neighbouring levels cross
	pairs  float64 // share of neighbouring levels that cross
	// pinball is the mean over rows and levels, divided by the standard
	// deviation of the target on the rows trained on.
	pinball float64
}

// crossingCurves are test rows of one split and their quantiles by each method.
type crossingCurves struct {
	set       string
	x, y      []float64 // first input and target
	levels    []float64
	quantiles [][]float32 // per method: rows × levels
}

func runFigure2(ctx context.Context, s settings) error {
	levels, err := figure2Levels(s.figure)
	if err != nil {
		return err
	}
	sets, err := crossingSets(s.sets, s.data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.figure.out, 0o755); err != nil {
		return err
	}
	shown := newProgress(s.stderr, 1)
	for _, set := range sets {
		for range s.seeds {
			shown.expect(set.name, 1)
		}
	}
	var results []crossingResult
	var curves crossingCurves
	for seed := range s.seeds {
		for i, set := range sets {
			id := seed*len(sets) + i
			shown.start(id, set.name, 1)
			rows, err := set.split(ctx, s.data, seed)
			if err != nil {
				return err
			}
			c, err := s.fitCrossing(ctx, set, rows, levels, seed)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", set.name, seed, err)
			}
			if seed == 0 && i == 0 {
				curves = c
			}
			results = append(results, c.measure(seed, stat.PopStdDev(column(rows.y), nil))...)
			shown.finish(id, fmt.Sprintf("%s, seed %d", set.name, seed))
		}
	}
	printFigure2(s.stdout, results, levels)
	return saveFigure2(filepath.Join(s.figure.out, "figure2"), results, curves)
}

func figure2Levels(f figureSettings) ([]float64, error) {
	levels, err := numbers("--levels", f.levels)
	if err != nil {
		return nil, err
	}
	for i, l := range levels {
		if !(l > 0 && l < 1) || i > 0 && l <= levels[i-1] {
			return nil, fmt.Errorf("%w: --levels increase between 0 and 1, and %v does not", errUsage, l)
		}
	}
	switch {
	case len(levels) < 2:
		return nil, fmt.Errorf("%w: one level crosses nothing: give --levels at least two", errUsage)
	case !(f.decay >= 0):
		return nil, fmt.Errorf("%w: --weight-decay is not negative, and %v is", errUsage, f.decay)
	}
	return levels, nil
}

// fitCrossing trains a network for each level, with an initialisation and an
// order of rows of its own, and one for all of them.
func (s settings) fitCrossing(ctx context.Context, set crossingSet, r crossingRows, levels []float64, seed int) (c crossingCurves, err error) {
	const batch = 64
	epochs := s.epochs
	if epochs == 0 {
		epochs = heads.DefaultSQREpochs(r.x.Rows, batch)
	}
	first := uint64(seed) * 1000
	p := heads.Problem{Hidden: set.hidden, Outputs: 1, Loss: heads.Pinball, Epochs: epochs, BatchSize: batch}
	for l, tau := range levels {
		p.Models = append(p.Models, heads.ModelConfig{
			Seed: first + 1 + uint64(l), LearningRate: 1e-3, WeightDecay: s.figure.decay, Level: tau,
		})
	}
	separate, err := heads.FitRegressionNetworks(ctx, r.x, r.y, s.trainer, p)
	if err != nil {
		return c, err
	}
	joint, err := heads.FitSQR(ctx, r.x, r.y, s.trainer, heads.SQROptions{
		Hidden: set.hidden, Epochs: epochs, BatchSize: batch, LearningRate: 1e-3, WeightDecay: s.figure.decay, Seed: first,
	})
	if err != nil {
		return c, err
	}
	c = crossingCurves{set: set.name, x: column(r.testX), y: column(r.testY), levels: levels}
	apart := separateQuantiles(separate, r.testX)
	c.quantiles = [][]float32{
		apart, sortedRows(apart, len(levels)), joint.Unsorted(r.testX, levels).Data, joint.Quantiles(r.testX, levels).Data,
	}
	return c, nil
}

// separateQuantiles are those of networks of one level each, rows × levels.
func separateQuantiles(networks []heads.RegressionNetworks, x blas32.General) []float32 {
	levels := len(networks)
	q := make([]float32, x.Rows*levels)
	for l, n := range networks {
		n.EachBlock(x, func(lo int, rows blas32.General) {
			for i, v := range n.Networks[0].Apply(rows).Data {
				q[(lo+i)*levels+l] = float32(n.Y.Mean[0] + n.Y.Scale[0]*float64(v))
			}
		})
	}
	return q
}

// sortedRows is q with the quantiles of each row in increasing order.
func sortedRows(q []float32, levels int) []float32 {
	q = slices.Clone(q)
	for row := range slices.Chunk(q, levels) {
		slices.Sort(row)
	}
	return q
}

func (c crossingCurves) measure(seed int, scale float64) []crossingResult {
	var results []crossingResult
	for m, method := range crossingMethods() {
		f := calibrate.Forecasts{Levels: c.levels, Quantiles: c.quantiles[m], Y: c.y}
		results = append(results, crossingResult{
			set: c.set, seed: seed, method: method,
			rows: f.CrossedRows(), pairs: f.CrossingRate(), pinball: stat.Mean(f.Pinball(), nil) / scale,
		})
	}
	return results
}
