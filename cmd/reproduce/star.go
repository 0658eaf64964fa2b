package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
)

// starExperiment is the paper's appendix A.2: the effect of a small class on
// the quantiles of a child's exam score. One network for each kind of class
// learns all quantiles of the score given the teacher's years of experience;
// the effect at a level is the difference of the mean predicted quantiles.
// Bands come from the bootstrap, whose samples are models of one run. The
// paper's networks keep their last weights, which moves effects in the tails by
// several points from one refit to the next; here weights are averaged.
var starExperiment = experiment{
	name:  "star",
	doc:   "quantile treatment effects of a small class, with bootstrap bands",
	uses:  []string{"data", "seeds", "epochs", "ort-lib"},
	flags: starFlags,
	run:   runSTAR,
}

// starSettings are the flags of star beyond those that experiments share.
type starSettings struct {
	out       string
	refits    int
	resample  string
	coverage  float64
	averaging float64
}

func starFlags(flags *flag.FlagSet, s *settings) {
	repetitions(flags, s, 200, "number of bootstrap samples")
	flags.IntVar(&s.star.refits, "refits", 30, "`number` of networks fitted to all rows, whose mean is the effect")
	flags.StringVar(&s.star.resample, "resample", "rows", "what the bootstrap draws: `rows` or teachers (whole classes)")
	flags.Float64Var(&s.star.averaging, "averaging", .98, "`factor` of a running mean of the weights over epochs; 0, the paper's, keeps the last")
	flags.Float64Var(&s.star.coverage, "coverage", .95, "of the bands, at each level")
	flags.StringVar(&s.star.out, "out", "star", "`folder` for the table and the picture")
}

// repetitions gives --seeds another default and meaning.
func repetitions(flags *flag.FlagSet, s *settings, n int, usage string) {
	s.seeds = n
	if f := flags.Lookup("seeds"); f != nil {
		f.DefValue, f.Usage = fmt.Sprint(n), usage
	}
}

func (s settings) checkSTAR() error {
	switch o := s.star; {
	case o.refits < 1:
		return fmt.Errorf("%w: --refits must be at least 1, not %d", errUsage, o.refits)
	case o.resample != "rows" && o.resample != "teachers":
		return fmt.Errorf("%w: --resample is rows or teachers, not %q", errUsage, o.resample)
	case !(o.coverage > 0 && o.coverage < 1):
		return fmt.Errorf("%w: --coverage lies between 0 and 1, not %v", errUsage, o.coverage)
	case !(o.averaging >= 0 && o.averaging < 1):
		return fmt.Errorf("%w: --averaging lies in [0, 1), not %v", errUsage, o.averaging)
	case s.seeds < 2:
		return fmt.Errorf("%w: bands need at least 2 bootstrap samples, not --seeds %d", errUsage, s.seeds)
	}
	return nil
}

// starLevels are the levels of the effect.
func starLevels() []float64 { return []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9} }

func runSTAR(ctx context.Context, s settings) error {
	if err := s.checkSTAR(); err != nil {
		return err
	}
	data, err := readSTAR(filepath.Join(s.data, "star", "kdg.csv"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.star.out, 0o755); err != nil {
		return err
	}
	shown := newProgress(s.stderr, 1)
	arms := []starArm{data.small, data.regular}
	var epochs [2]int
	for a, arm := range arms {
		if epochs[a] = s.epochs; s.epochs == 0 {
			epochs[a] = heads.DefaultSQREpochs(arm.x.Rows, 64)
		}
		shown.expect("arm", float64(arm.x.Rows*epochs[a]))
	}
	var outcomes [2]armOutcomes
	for a, arm := range arms {
		shown.start(a, "arm", float64(arm.x.Rows*epochs[a]))
		began := time.Now()
		if outcomes[a], err = s.fitArm(ctx, arm, epochs[a], func(share float64) { shown.advance(a, share) }); err != nil {
			return fmt.Errorf("classes %q: %w", arm.name, err)
		}
		shown.finish(a, fmt.Sprintf("%s, %d networks in %s", arm.name, s.star.refits+s.seeds, time.Since(began).Round(time.Second)))
	}
	effects := treatmentEffects(outcomes[0], outcomes[1], starLevels(), s.star.coverage)
	return s.reportSTAR(data, epochs, effects)
}

// fitArm fits networks to all rows and to bootstrap samples of them, in one
// run, and evaluates each on the rows that it was fitted to.
func (s settings) fitArm(ctx context.Context, arm starArm, epochs int, progress func(share float64)) (armOutcomes, error) {
	var samples [][]int
	everything := make([]int, arm.x.Rows)
	for i := range everything {
		everything[i] = i
	}
	for range s.star.refits {
		samples = append(samples, everything)
	}
	rng := rand.New(rand.NewPCG(uint64(len(arm.name)), 7))
	for range s.seeds {
		if s.star.resample == "teachers" {
			samples = append(samples, resampleGroups(arm.teacher, rng))
		} else {
			samples = append(samples, resampleRows(arm.x.Rows, rng))
		}
	}
	p := heads.Problem{
		Hidden: []int{128}, Outputs: 1, Loss: heads.Pinball, Conditional: true, Epochs: epochs, BatchSize: 64,
		Progress: func(done, total int) { progress(.9 * float64(done) / float64(total)) },
	}
	for i, rows := range samples {
		p.Models = append(p.Models, heads.ModelConfig{
			Seed: uint64(i), LearningRate: 1e-3, WeightDecay: 1e-3, Averaging: s.star.averaging, Rows: rows,
		})
	}
	fitted, err := heads.FitRegressionNetworks(ctx, arm.x, arm.y, s.trainer, p)
	if err != nil {
		return armOutcomes{}, err
	}
	out := armOutcomes{refits: s.star.refits}
	scores := column(arm.y)
	for i, n := range fitted {
		if err := ctx.Err(); err != nil {
			return armOutcomes{}, err
		}
		q := quantilesOf(n, arm.x)
		weights := counts(samples[i], arm.x.Rows)
		out.mean = append(out.mean, meanQuantiles(q, weights, starLevels()))
		out.marginal = append(out.marginal, marginalQuantiles(q, weights, starLevels()))
		out.empirical = append(out.empirical, empiricalQuantiles(scores, weights, starLevels()))
		progress(.9 + .1*float64(i+1)/float64(len(fitted)))
	}
	return out, nil
}

// quantilesOf predicts the quantiles of every row at 100 equally spaced levels.
func quantilesOf(n heads.RegressionNetworks, x blas32.General) heads.Quantiles {
	s := heads.SQR{RegressionNetworks: n}
	for i := range 100 {
		s.Grid = append(s.Grid, (float64(i)+.5)/100)
	}
	return s.Quantiles(x, s.Grid)
}
