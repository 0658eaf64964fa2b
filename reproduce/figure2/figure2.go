// Package figure2 reproduces the paper's figure of crossing quantiles. It compares one
// network for each quantile level with one network for all levels.
package figure2

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the figure2 command.
var Experiment = experiment.Experiment{
	Name:         "figure2",
	Doc:          "crossing quantiles of levels trained separately and jointly; toys need no --data",
	Shared:       []string{"data", "sets", "seeds", "epochs", "out", "ort-lib"},
	OptionalData: true,
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		flags.StringVar(&s.levels, "levels", ".1,.2,.3,.4,.5,.6,.7,.8,.9", "increasing quantile `levels`, at least two")
		flags.Float64Var(&s.weightDecay, "weight-decay", .001, "weight `decay` of all networks, added to the gradient")
		return s.run
	},
}

type settings struct {
	*experiment.Settings
	levels      string
	weightDecay float64
}

// crossingMethods returns the names of the ways to estimate quantiles at several levels.
func crossingMethods() []string {
	return []string{"separate", "separate, sorted", "joint", "joint, sorted"}
}

// crossingResult holds the measurements of one method on the test rows of one split.
type crossingResult struct {
	set          string
	seed         int
	method       string
	rowFraction  float64 // fraction of rows with at least one crossing of neighbouring levels
	pairFraction float64 // fraction of neighbouring level pairs that cross
	// pinball is the mean pinball loss over rows and levels, divided by the standard
	// deviation of the target on the training rows.
	pinball float64
}

// crossingCurves holds test rows of one split and their quantiles by each method.
type crossingCurves struct {
	set       string
	x, y      []float64 // first input and target
	levels    []float64
	quantiles [][]float32 // by method: rows × levels
}

func (s *settings) run(ctx context.Context) error {
	levels, err := s.checkedLevels()
	if err != nil {
		return err
	}
	sets, err := chooseSets(s.Sets, s.Data)
	if err != nil {
		return err
	}
	var results []crossingResult
	var curves crossingCurves
	var jobs []experiment.Job
	for i, set := range sets {
		for seed := range s.Seeds {
			jobs = append(jobs, experiment.Job{
				Kind: set.name, Cost: 1, Seed: seed, What: fmt.Sprintf("%s, seed %d", set.name, seed),
				Run: func(ctx context.Context, _ func(float64)) error {
					rows, err := set.split(ctx, s.Data, seed)
					if err != nil {
						return err
					}
					c, err := s.fitCrossing(ctx, set, rows, levels, seed)
					if err != nil {
						return err
					}
					if seed == 0 && i == 0 {
						curves = c
					}
					results = append(results, c.measure(seed, stat.PopStdDev(experiment.Column(rows.y), nil))...)
					return nil
				},
			})
		}
	}
	if err := experiment.RunJobs(ctx, s.Settings, jobs); err != nil {
		return err
	}
	printResults(s.Stdout, results, levels)
	return save(filepath.Join(s.Out, "figure2"), results, curves)
}

func (s *settings) checkedLevels() ([]float64, error) {
	levels, err := experiment.Numbers("--levels", s.levels)
	if err != nil {
		return nil, err
	}
	for i, l := range levels {
		if !(l > 0 && l < 1) || i > 0 && l <= levels[i-1] {
			return nil, experiment.Usagef("--levels increase between 0 and 1, and %v does not", l)
		}
	}
	switch {
	case len(levels) < 2:
		return nil, experiment.Usagef("one level crosses nothing: give --levels at least two")
	case !(s.weightDecay >= 0):
		return nil, experiment.Usagef("--weight-decay is not negative, and %v is", s.weightDecay)
	}
	return levels, nil
}

// fitCrossing trains one network for each level, and one network for all levels. Each
// network has its own seed for the initial weights and the order of rows.
func (s *settings) fitCrossing(ctx context.Context, set crossingSet, r crossingRows, levels []float64, seed int) (c crossingCurves, err error) {
	const batch = 64
	epochs := s.Epochs
	if epochs == 0 {
		epochs = mlp.DefaultEpochs(r.x.Rows, batch)
	}
	baseSeed := uint64(seed) * 1000
	p := train.Problem{Hidden: set.hidden, Outputs: 1, Loss: "pinball", Epochs: epochs, BatchSize: batch}
	for l, tau := range levels {
		p.Models = append(p.Models, train.ModelConfig{
			Seed: baseSeed + 1 + uint64(l), LearningRate: 1e-3, WeightDecay: s.weightDecay, Level: tau,
		})
	}
	separate, err := mlp.Fit(ctx, r.x, r.y, s.Trainer, p)
	if err != nil {
		return c, err
	}
	sqr, _ := attach.MethodByName("sqr")
	fitted, err := fitting.Fit(ctx, sqr, ood.Training{Batch: ood.Batch{Features: r.x}, Targets: r.y, Trainer: s.Trainer, Seed: baseSeed}, ood.Params{
		"hidden": strings.ReplaceAll(strings.Trim(fmt.Sprint(set.hidden), "[]"), " ", "x"), "epochs": epochs, "batch": batch, "weight_decay": s.weightDecay,
	})
	if err != nil {
		return c, err
	}
	joint := fitted.Fitted().(*mlp.Conditional)
	c = crossingCurves{set: set.name, x: experiment.Column(r.testX), y: experiment.Column(r.testY), levels: levels}
	separateQ := separateQuantiles(separate, r.testX)
	c.quantiles = [][]float32{
		separateQ, sortedRows(separateQ, len(levels)), experiment.Unsorted(joint, r.testX, levels).Data, joint.Quantiles(r.testX, levels).Data,
	}
	return c, nil
}

// separateQuantiles returns the quantiles from networks of one level each, rows × levels.
func separateQuantiles(fits []mlp.Regression, x blas32.General) []float32 {
	levels := len(fits)
	q := make([]float32, x.Rows*levels)
	for l, n := range fits {
		predicted := n.EachRow(x, []float64{.5}, n.Apply, func(_ int, z, quantiles []float32) { quantiles[0] = float32(n.InUnits(0, z[0])) })
		for i, v := range predicted.Data {
			q[i*levels+l] = v
		}
	}
	return q
}

// sortedRows returns a copy of q with the quantiles of each row in increasing order.
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
		f := measure.Forecasts{Levels: c.levels, Quantiles: c.quantiles[m], Y: c.y}
		rowFraction, pairFraction := experiment.Crossing(f.Quantiles, len(f.Levels))
		results = append(results, crossingResult{
			set: c.set, seed: seed, method: method,
			rowFraction: rowFraction, pairFraction: pairFraction, pinball: stat.Mean(f.Pinball(), nil) / scale,
		})
	}
	return results
}
