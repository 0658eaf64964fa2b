// Package abalone reproduces the paper's appendix B, the classification of young and old
// abalone. It compares simultaneous quantile regression of the label with binary
// cross-entropy. Both use networks of the same shape: two hidden layers of 100 units, with
// learning rate and weight decay 1e-3. One training run fits the networks of all random
// splits. Inputs are standardised over all rows, which uses no labels.
//
// The paper does not say how it reads the output, so the package tries three ways. The
// first two regress quantiles of the label, without and with a sigmoid on the output. The
// third regresses quantiles of the number of rings, because the label is a threshold on it.
// The paper also omits the fraction of test rows (0.1 here), the batch size (64) and the
// number of epochs.
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

// Experiment is the abalone command.
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
	// rings reports whether the target is the standardised number of rings.
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
	data, err := readAbalone(filepath.Join(s.Data, "abalone.csv"))
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
			Run: func(ctx context.Context, progress func(fraction float64)) (err error) {
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

// fit fits a network to each split and evaluates it on the test rows.
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
		Epochs: epochs, BatchSize: 64, Progress: func(fraction float64) { progress(.9 * fraction) },
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
		var predictions []prediction
		if form.loss == "bce" {
			predictions = predictionsFromLogits(n.Apply(rows.Select(p.X, splits[i].Test)), s.coverage)
		} else {
			sqr := &mlp.Conditional{Regression: mlp.Regression{Networks: []train.Network{n}, X: sx, Y: sy}, Grid: levels()}
			predictions = predictionsFromQuantiles(sqr.Quantiles(test, sqr.Grid), form, s.coverage)
		}
		var old []bool
		for _, row := range splits[i].Test {
			old = append(old, data.old[row])
		}
		m, err := measureClasses(predictions, old)
		if err != nil {
			return formResult{}, fmt.Errorf("split %d: %w", i, err)
		}
		result.splits = append(result.splits, m)
		if i == 0 {
			result.predictions, result.old = predictions, old
		}
		progress(.9 + .1*float64(i+1)/float64(len(trained)))
	}
	return result, nil
}

// levels returns the midpoints of 40 equal parts of [0, 1]: 0.0125, 0.0375, …, 0.9875.
func levels() []float64 {
	levels := make([]float64, 40)
	for i := range levels {
		levels[i] = (float64(i) + .5) / 40
	}
	return levels
}

// prediction holds the outputs of a network for one row. A larger class score means that
// old is more probable.
type prediction struct {
	score, lower, upper float64 // class score and interval bounds; in rings if classForm.rings is set
	mean                float64 // probability of being old
	predictedOld        bool    // predicted class
	uncertainty         float64 // width of the interval, or the smaller class probability
	mayBeYoung          bool    // reports whether the interval contains scores of young abalone
	mayBeOld            bool    // reports whether the interval contains scores of old abalone
}

// predictionsFromLogits converts logits to probabilities. The interval contains a class if
// its probability is at least (1−coverage)/2, the probability of one tail.
func predictionsFromLogits(z blas32.General, coverage float64) []prediction {
	predictions := make([]prediction, z.Rows)
	for i := range predictions {
		p := sigmoid(float64(z.Data[i*z.Stride]))
		tail := (1 - coverage) / 2
		out := prediction{score: p, mean: p, predictedOld: p > .5, uncertainty: min(p, 1-p), mayBeYoung: 1-p >= tail, mayBeOld: p >= tail}
		out.lower, out.upper = experiment.Indicator(!out.mayBeYoung), experiment.Indicator(out.mayBeOld)
		predictions[i] = out
	}
	return predictions
}

// predictionsFromQuantiles converts quantiles of the label, of its logit or of the rings.
func predictionsFromQuantiles(q ood.Quantiles, form classForm, coverage float64) []prediction {
	threshold := .5
	if form.rings {
		threshold = youngRings + .5
	}
	predictions := make([]prediction, q.Rows)
	for i := range predictions {
		row := slices.Clone(q.Row(i, 0))
		var out prediction
		for l, v := range row {
			if form.loss == "sigmoid-pinball" {
				row[l] = float32(sigmoid(float64(v)))
			}
			if !form.rings {
				out.mean += float64(row[l]) / float64(len(row))
			}
		}
		if form.rings {
			out.mean = probabilityAbove(row, q.Levels, threshold)
		}
		quantileAt := func(tau float64) float64 { return float64(quantile.Interpolate(q.Levels, row, tau)) }
		out.score, out.lower, out.upper = quantileAt(.5), quantileAt((1-coverage)/2), quantileAt((1+coverage)/2)
		out.predictedOld, out.uncertainty = out.score > threshold, out.upper-out.lower
		out.mayBeYoung, out.mayBeOld = out.lower <= threshold, out.upper > threshold
		predictions[i] = out
	}
	return predictions
}

// probabilityAbove returns the probability of a value above threshold. It interpolates
// linearly between the increasing quantiles. If all quantiles lie on one side of threshold,
// it halves the probability that remains beyond the outermost quantile.
func probabilityAbove(quantiles []float32, levels []float64, threshold float64) float64 {
	i, _ := slices.BinarySearch(quantiles, float32(threshold))
	switch {
	case i == 0:
		return 1 - levels[0]/2
	case i == len(quantiles):
		return (1 - levels[i-1]) / 2
	}
	lo, hi := float64(quantiles[i-1]), float64(quantiles[i])
	w := (threshold - lo) / (hi - lo)
	return 1 - (levels[i-1] + w*(levels[i]-levels[i-1]))
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
