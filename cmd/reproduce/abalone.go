package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/quantile"
)

// abaloneExperiment is the paper's appendix B: classification of young and old
// abalone with simultaneous quantile regression of the label, against binary
// cross-entropy in a network of the same shape (two hidden layers of 100,
// learning rate and weight decay 1e-3). All random splits are models of one
// run; the inputs are standardised over all rows, which uses no label.
//
// The paper leaves open how the output is read, so that it is done three ways:
// quantiles of the label from the bare output and from its sigmoid, and
// quantiles of the rings, of which the label is a threshold. It leaves open the
// share of test rows (here a tenth), the batch size (64) and the epochs too.
var abaloneExperiment = experiment{
	name:  "abalone",
	doc:   "young or old: classification by pinball loss against cross-entropy",
	uses:  []string{"data", "seeds", "epochs", "ort-lib"},
	flags: abaloneFlags,
	run:   runAbalone,
}

// abaloneSettings are the flags of abalone beyond those that experiments share.
type abaloneSettings struct {
	out      string
	coverage float64
}

func abaloneFlags(flags *flag.FlagSet, s *settings) {
	repetitions(flags, s, 30, "number of random splits")
	flags.Float64Var(&s.abalone.coverage, "coverage", .9, "of the intervals of the class score")
	flags.StringVar(&s.abalone.out, "out", "abalone", "`folder` for the table and the picture")
}

// abaloneForm is a way to learn the class.
type abaloneForm struct {
	name string
	loss heads.Loss
	// rings says that it learns the number of rings, standardised.
	rings bool
}

func abaloneForms() []abaloneForm {
	return []abaloneForm{
		{name: "cross-entropy", loss: heads.BCE},
		{name: "pinball", loss: heads.Pinball},
		{name: "pinball of sigmoid", loss: heads.SigmoidPinball},
		{name: "pinball of rings", loss: heads.Pinball, rings: true},
	}
}

func runAbalone(ctx context.Context, s settings) error {
	switch c := s.abalone.coverage; {
	case !(c > 0 && c < .975):
		return fmt.Errorf("%w: --coverage lies between 0 and .975, not %v", errUsage, c)
	case s.seeds < 2:
		return fmt.Errorf("%w: differences between losses need at least 2 splits, not --seeds %d", errUsage, s.seeds)
	}
	data, err := readAbalone(filepath.Join(s.data, "abalone.csv"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.abalone.out, 0o755); err != nil {
		return err
	}
	splits := make([]rowSplit, s.seeds)
	for i := range splits {
		splits[i] = splitRows(data.x.Rows, uint64(i))
		splits[i].fit = slices.Concat(splits[i].fit, splits[i].cal)
	}
	epochs := s.epochs
	if epochs == 0 {
		epochs = heads.DefaultSQREpochs(len(splits[0].fit), 64)
	}
	shown := newProgress(s.stderr, 1)
	for _, form := range abaloneForms() {
		shown.expect(string(form.loss), 1)
	}
	var results []abaloneResult
	for i, form := range abaloneForms() {
		shown.start(i, string(form.loss), 1)
		r, err := s.fitAbalone(ctx, data, form, splits, epochs, func(share float64) { shown.advance(i, share) })
		if err != nil {
			return fmt.Errorf("%s: %w", form.name, err)
		}
		results = append(results, r)
		shown.finish(i, fmt.Sprintf("%s, %d networks", form.name, len(splits)))
	}
	return s.reportAbalone(data, splits[0], epochs, results)
}

// fitAbalone fits a network to each split and judges its test rows.
func (s settings) fitAbalone(ctx context.Context, data abaloneData, form abaloneForm, splits []rowSplit, epochs int, progress func(float64)) (abaloneResult, error) {
	y := blas32.General{Rows: data.x.Rows, Cols: 1, Stride: 1}
	for i := range data.x.Rows {
		if form.rings {
			y.Data = append(y.Data, float32(data.rings[i]))
		} else {
			y.Data = append(y.Data, float32(indicator(data.old[i])))
		}
	}
	sx, _ := heads.NewStandard(data.x)
	sy := heads.Standard{Mean: []float64{0}, Scale: []float64{1}}
	if form.rings {
		sy, _ = heads.NewStandard(y)
		y = standardised(y)
	}
	p := heads.Problem{
		X: standardised(data.x), Y: y, Hidden: []int{100, 100}, Outputs: 1, Loss: form.loss, Conditional: form.loss != heads.BCE,
		Epochs: epochs, BatchSize: 64, Progress: func(done, total int) { progress(.9 * float64(done) / float64(total)) },
	}
	for seed, split := range splits {
		p.Models = append(p.Models, heads.ModelConfig{Seed: uint64(seed), LearningRate: 1e-3, WeightDecay: 1e-3, Rows: split.fit})
	}
	networks, err := s.trainer.Train(ctx, p)
	if err != nil {
		return abaloneResult{}, err
	}
	result := abaloneResult{form: form}
	for i, n := range networks {
		if err := ctx.Err(); err != nil {
			return abaloneResult{}, err
		}
		test := pick(data.x, splits[i].test)
		var judged []judgement
		if form.loss == heads.BCE {
			judged = judgeLogits(n.Apply(pick(p.X, splits[i].test)), s.abalone.coverage)
		} else {
			sqr := &heads.SQR{RegressionNetworks: heads.RegressionNetworks{Networks: []heads.Network{n}, X: sx, Y: sy}, Grid: abaloneLevels()}
			judged = judgeQuantiles(sqr.Quantiles(test, sqr.Grid), form, s.abalone.coverage)
		}
		var old []bool
		for _, row := range splits[i].test {
			old = append(old, data.old[row])
		}
		m, err := measureClasses(judged, old)
		if err != nil {
			return abaloneResult{}, fmt.Errorf("split %d: %w", i, err)
		}
		result.splits = append(result.splits, m)
		if i == 0 {
			result.judged, result.old = judged, old
		}
		progress(.9 + .1*float64(i+1)/float64(len(networks)))
	}
	return result, nil
}

// abaloneLevels are .0125, .0375, … .9875: the middles of 40 equal parts.
func abaloneLevels() []float64 {
	levels := make([]float64, 40)
	for i := range levels {
		levels[i] = (float64(i) + .5) / 40
	}
	return levels
}

// judgement is what a network says of a row. A class score grows with the
// probability of being old.
type judgement struct {
	score, lower, upper float64 // median and interval; of rings for abaloneForm.rings
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
		j.lower, j.upper = indicator(!j.mayBeYoung), indicator(j.mayBeOld)
		judged[i] = j
	}
	return judged
}

// judgeQuantiles reads quantiles of the label, of its logit, or of rings.
func judgeQuantiles(q heads.Quantiles, form abaloneForm, coverage float64) []judgement {
	cut := .5
	if form.rings {
		cut = abaloneRings + .5
	}
	judged := make([]judgement, q.Rows)
	for i := range judged {
		row := slices.Clone(q.Row(i, 0))
		var j judgement
		for l, v := range row {
			if form.loss == heads.SigmoidPinball {
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
