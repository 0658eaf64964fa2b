// Package abalone is the paper's appendix B: classification of young and old
// abalone with simultaneous quantile regression of the label, against binary
// cross-entropy in a network of the same shape (two hidden layers of 100,
// learning rate and weight decay 1e-3). All random splits are models of one
// run; the inputs are standardised over all rows, which uses no label.
//
// The paper leaves open how the output is read, so that it is done three ways:
// quantiles of the label from the bare output and from its sigmoid, and
// quantiles of the rings, of which the label is a threshold. It leaves open the
// share of test rows (here a tenth), the batch size (64) and the epochs too.
package abalone

import (
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is what the command runs.
var Experiment = experiment.Experiment{
	Name:   "abalone",
	Doc:    "young or old: classification by pinball loss against cross-entropy",
	Shared: []string{"data", "seeds", "epochs", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		experiment.Redefine(flags, "seeds", "30", "number of random splits")
		flags.Float64Var(&s.coverage, "coverage", .9, "of the intervals of the class score")
		return s.run
	},
}

type settings struct {
	*experiment.Settings
	coverage float64
}

// classForm is a way to learn the class.
type classForm struct {
	name string
	loss train.Loss
	// rings says that it learns the number of rings, standardised.
	rings bool
}

func forms() []classForm {
	return []classForm{
		{name: "cross-entropy", loss: "bce"},
		{name: "pinball", loss: "pinball"},
		{name: "pinball of sigmoid", loss: "sigmoid-pinball"},
		{name: "pinball of rings", loss: "pinball", rings: true},
	}
}

func (s *settings) run(ctx context.Context) error {
	switch c := s.coverage; {
	case !(c > 0 && c < .975):
		return experiment.Usagef("--coverage lies between 0 and .975, not %v", c)
	case s.Seeds < 2:
		return experiment.Usagef("differences between losses need at least 2 splits, not --seeds %d", s.Seeds)
	}
	data, err := read(filepath.Join(s.Data, "abalone.csv"))
	if err != nil {
		return err
	}
	splits := make([]experiment.Split, s.Seeds)
	for i := range splits {
		splits[i] = experiment.SplitRows(data.x.Rows, uint64(i))
		splits[i].Fit = slices.Concat(splits[i].Fit, splits[i].Cal)
	}
	epochs := s.Epochs
	if epochs == 0 {
		epochs = mlp.DefaultEpochs(len(splits[0].Fit), 64)
	}
	results := make([]formResult, len(forms()))
	var jobs []experiment.Job
	for i, form := range forms() {
		jobs = append(jobs, experiment.Job{
			Kind: string(form.loss), Cost: 1, What: fmt.Sprintf("%s, %d networks", form.name, len(splits)),
			Run: func(ctx context.Context, progress func(share float64)) (err error) {
				results[i], err = s.fit(ctx, data, form, splits, epochs, progress)
				return err
			},
		})
	}
	if err := experiment.RunJobs(ctx, s.Settings, jobs); err != nil {
		return err
	}
	return s.report(data, splits[0], epochs, results)
}

// fit fits a network to each split and judges its test rows.
func (s *settings) fit(ctx context.Context, data abaloneData, form classForm, splits []experiment.Split, epochs int, progress func(float64)) (formResult, error) {
	y := blas32.General{Rows: data.x.Rows, Cols: 1, Stride: 1}
	for i := range data.x.Rows {
		if form.rings {
			y.Data = append(y.Data, float32(data.rings[i]))
		} else {
			y.Data = append(y.Data, float32(experiment.Indicator(data.old[i])))
		}
	}
	sx, _ := mlp.NewStandard(data.x)
	sy := mlp.Standard{Mean: []float64{0}, Scale: []float64{1}}
	if form.rings {
		sy, _ = mlp.NewStandard(y)
		y = experiment.Standardised(y)
	}
	p := train.Problem{
		X: experiment.Standardised(data.x), Y: y, Hidden: []int{100, 100}, Outputs: 1, Loss: form.loss, Conditional: form.loss != "bce",
		Epochs: epochs, BatchSize: 64, Progress: func(share float64) { progress(.9 * share) },
	}
	for seed, split := range splits {
		p.Models = append(p.Models, train.ModelConfig{Seed: uint64(seed), LearningRate: 1e-3, WeightDecay: 1e-3, Rows: split.Fit})
	}
	trained, err := s.Trainer.Train(ctx, p)
	if err != nil {
		return formResult{}, err
	}
	result := formResult{form: form}
	for i, n := range trained {
		if err := ctx.Err(); err != nil {
			return formResult{}, err
		}
		test := rows.Select(data.x, splits[i].Test)
		var judged []judgement
		if form.loss == "bce" {
			judged = judgeLogits(n.Apply(rows.Select(p.X, splits[i].Test)), s.coverage)
		} else {
			sqr := &mlp.Conditional{Regression: mlp.Regression{Networks: []train.Network{n}, X: sx, Y: sy}, Grid: levels()}
			judged = judgeQuantiles(sqr.Quantiles(test, sqr.Grid), form, s.coverage)
		}
		var old []bool
		for _, row := range splits[i].Test {
			old = append(old, data.old[row])
		}
		m, err := measureClasses(judged, old)
		if err != nil {
			return formResult{}, fmt.Errorf("split %d: %w", i, err)
		}
		result.splits = append(result.splits, m)
		if i == 0 {
			result.judged, result.old = judged, old
		}
		progress(.9 + .1*float64(i+1)/float64(len(trained)))
	}
	return result, nil
}

// levels are .0125, .0375, … .9875: the middles of 40 equal parts.
func levels() []float64 {
	levels := make([]float64, 40)
	for i := range levels {
		levels[i] = (float64(i) + .5) / 40
	}
	return levels
}

// judgement is what a network says of a row. A class score grows with the
// probability of being old.
type judgement struct {
	score, lower, upper float64 // median and interval; of rings for classForm.rings
	mean                float64 // the probability of being old: over levels, or cross-entropy's
	old                 bool    // the class
	unsure              float64 // the interval's width, or the probability of the other class
	mayBeYoung          bool    // the interval holds a score of the young
	mayBeOld            bool
}

// judgeLogits reads probabilities; an interval holds a class that is at least
// as likely as a quantile outside of the interval is.
func judgeLogits(z blas32.General, coverage float64) []judgement {
	judged := make([]judgement, z.Rows)
	for i := range judged {
		p := sigmoid(float64(z.Data[i*z.Stride]))
		tail := (1 - coverage) / 2
		j := judgement{score: p, mean: p, old: p > .5, unsure: min(p, 1-p), mayBeYoung: 1-p >= tail, mayBeOld: p >= tail}
		j.lower, j.upper = experiment.Indicator(!j.mayBeYoung), experiment.Indicator(j.mayBeOld)
		judged[i] = j
	}
	return judged
}

// judgeQuantiles reads quantiles of the label, of its logit, or of rings.
func judgeQuantiles(q ood.Quantiles, form classForm, coverage float64) []judgement {
	cut := .5
	if form.rings {
		cut = youngRings + .5
	}
	judged := make([]judgement, q.Rows)
	for i := range judged {
		row := slices.Clone(q.Row(i, 0))
		var j judgement
		for l, v := range row {
			if form.loss == "sigmoid-pinball" {
				row[l] = float32(sigmoid(float64(v)))
			}
			if !form.rings {
				j.mean += float64(row[l]) / float64(len(row))
			}
		}
		if form.rings {
			j.mean = above(row, q.Levels, cut)
		}
		at := func(tau float64) float64 { return float64(quantile.Interpolate(q.Levels, row, tau)) }
		j.score, j.lower, j.upper = at(.5), at((1-coverage)/2), at((1+coverage)/2)
		j.old, j.unsure = j.score > cut, j.upper-j.lower
		j.mayBeYoung, j.mayBeOld = j.lower <= cut, j.upper > cut
		judged[i] = j
	}
	return judged
}

// above is the probability of a value above cut under increasing quantiles,
// linear between levels.
func above(quantiles []float32, levels []float64, cut float64) float64 {
	i, _ := slices.BinarySearch(quantiles, float32(cut))
	switch {
	case i == 0:
		return 1 - levels[0]/2
	case i == len(quantiles):
		return (1 - levels[i-1]) / 2
	}
	lo, hi := float64(quantiles[i-1]), float64(quantiles[i])
	w := (cut - lo) / (hi - lo)
	return 1 - (levels[i-1] + w*(levels[i]-levels[i-1]))
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
