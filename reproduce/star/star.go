// Package star reproduces the paper's appendix A.2, the effect of a small class on the
// quantiles of a child's exam score. One network for each kind of class learns all
// quantiles of the score given the teacher's years of experience. The effect at a level is
// the difference of the mean predicted quantiles. Bootstrap samples provide bands, and one
// training run fits the networks of all samples.
//
// The paper's networks keep their last weights. The effects in the tails then change by
// several points between refits, so this package averages the weights by default.
package star

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/ood"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the star command.
var Experiment = experiment.Experiment{
	Name:   "star",
	Doc:    "quantile treatment effects of a small class, with bootstrap bands",
	Shared: []string{"data", "seeds", "epochs", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		experiment.Redefine(flags, "seeds", "200", "number of bootstrap samples")
		flags.IntVar(&s.refits, "refits", 30, "`number` of networks fitted to all rows, whose mean is the effect")
		flags.StringVar(&s.resample, "resample", "rows", "what the bootstrap draws: `rows` or teachers (whole classes)")
		flags.Float64Var(&s.averaging, "averaging", .98, "`factor` of a running mean of the weights over epochs; 0, the paper's, keeps the last")
		flags.Float64Var(&s.coverage, "coverage", .95, "of the bands, at each level")
		return s.run
	},
}

type settings struct {
	*experiment.Settings
	refits              int
	resample            string
	coverage, averaging float64
}

func (s *settings) check() error {
	switch {
	case s.refits < 1:
		return experiment.Usagef("--refits must be at least 1, not %d", s.refits)
	case s.resample != "rows" && s.resample != "teachers":
		return experiment.Usagef("--resample is rows or teachers, not %q", s.resample)
	case !(s.coverage > 0 && s.coverage < 1):
		return experiment.Usagef("--coverage lies between 0 and 1, not %v", s.coverage)
	case !(s.averaging >= 0 && s.averaging < 1):
		return experiment.Usagef("--averaging lies in [0, 1), not %v", s.averaging)
	case s.Seeds < 2:
		return experiment.Usagef("bands need at least 2 bootstrap samples, not --seeds %d", s.Seeds)
	}
	return nil
}

// starLevels returns the levels at which the effect is reported.
func starLevels() []float64 { return []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9} }

func (s *settings) run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	data, err := readSTAR(filepath.Join(s.Data, "star", "kdg.csv"))
	if err != nil {
		return err
	}
	var epochs [2]int
	var outcomes [2]armOutcomes
	var jobs []experiment.Job
	for a, arm := range []starArm{data.small, data.regular} {
		if epochs[a] = s.Epochs; s.Epochs == 0 {
			epochs[a] = mlp.DefaultEpochs(arm.x.Rows, 64)
		}
		jobs = append(jobs, experiment.Job{
			Kind: "arm", Cost: float64(arm.x.Rows * epochs[a]), What: fmt.Sprintf("%s, %d networks", arm.name, s.refits+s.Seeds),
			Run: func(ctx context.Context, progress func(fraction float64)) (err error) {
				outcomes[a], err = s.fitArm(ctx, arm, epochs[a], progress)
				return err
			},
		})
	}
	if err := experiment.RunJobs(ctx, s.Settings, jobs); err != nil {
		return err
	}
	return s.report(data, epochs, treatmentEffects(outcomes[0], outcomes[1], starLevels(), s.coverage))
}

// fitArm fits networks to all rows and to bootstrap samples, in one training run. It
// evaluates each network on the rows of its own sample.
func (s *settings) fitArm(ctx context.Context, arm starArm, epochs int, progress func(fraction float64)) (armOutcomes, error) {
	samples := slices.Repeat([][]int{experiment.Indices(arm.x.Rows)}, s.refits)
	rng := rand.New(rand.NewPCG(uint64(len(arm.name)), 7))
	for range s.Seeds {
		if s.resample == "teachers" {
			samples = append(samples, resampleGroups(arm.teacher, rng))
		} else {
			samples = append(samples, resampleRows(arm.x.Rows, rng))
		}
	}
	p := train.Problem{
		Hidden: []int{128}, Outputs: 1, Loss: "pinball", Conditional: true, Epochs: epochs, BatchSize: 64,
		Progress: func(fraction float64) { progress(.9 * fraction) },
	}
	for i, rows := range samples {
		p.Models = append(p.Models, train.ModelConfig{
			Seed: uint64(i), LearningRate: 1e-3, WeightDecay: 1e-3, Averaging: s.averaging, Rows: rows,
		})
	}
	fitted, err := mlp.Fit(ctx, arm.x, arm.y, s.Trainer, p)
	if err != nil {
		return armOutcomes{}, err
	}
	out := armOutcomes{refitCount: s.refits}
	scores := experiment.Column(arm.y)
	for i, n := range fitted {
		if err := ctx.Err(); err != nil {
			return armOutcomes{}, err
		}
		q := quantilesOf(n, arm.x)
		weights := sampleCounts(samples[i], arm.x.Rows)
		out.mean = append(out.mean, meanQuantiles(q, weights, starLevels()))
		out.marginal = append(out.marginal, marginalQuantiles(q, weights, starLevels()))
		out.empirical = append(out.empirical, empiricalQuantiles(scores, weights, starLevels()))
		progress(.9 + .1*float64(i+1)/float64(len(fitted)))
	}
	return out, nil
}

// quantilesOf predicts the quantiles of every row at 100 equally spaced levels.
func quantilesOf(n mlp.Regression, x blas32.General) ood.Quantiles {
	s := mlp.Conditional{Regression: n}
	for i := range 100 {
		s.Grid = append(s.Grid, (float64(i)+.5)/100)
	}
	return s.Quantiles(x, s.Grid)
}
