package mlp

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/ood"
)

// Doc describes the parameters that Params declares, for the documentation of methods.
const Doc = " The network has `layers` hidden layers of `hidden` units; \"64x32\" gives each layer its own width, and layers=0 is a linear model. " +
	"It is trained by Adam with learning_rate, weight_decay in the gradient and dropout, in batches of `batch` rows. epochs=0 trains for about " +
	"10,000 steps. averaging is the factor of a running mean of the weights over epochs. Each target has its own network."

// Params declares the parameters of a network. A sweep tries each dropout rate with the
// learning rates and weight decays of Tagasovska & Lopez-Paz (2019). The first dropout rate
// is the default.
func Params(dropout ...any) []ood.Param {
	return []ood.Param{
		{Name: "learning_rate", Default: 1e-3, Takes: "positive", Sweep: []any{1e-2, 1e-3, 1e-4}},
		{Name: "weight_decay", Default: 0, Takes: "least=0", Sweep: []any{0, 1e-3, 1e-2, 1e-1, 1}},
		{Name: "dropout", Default: dropout[0].(float64), Takes: "least=0,below=1", Sweep: dropout},
		{Name: "averaging", Default: 0, Takes: "least=0,below=1"},
		{Name: "hidden", Default: 64, Takes: "widths,most=65536"}, {Name: "layers", Default: 1, Takes: "count,least=0,most=100"},
		{Name: "batch", Default: 64, Takes: "count"}, {Name: "epochs", Default: 0, Takes: "count,least=0"},
	}
}

// Bytes is the number of bytes that training needs per weight.
const Bytes = 64

// Memory estimates the memory in bytes that training needs.
func Memory(t ood.Training, p ood.Params) float64 {
	weights, in := 0., t.Features.Cols+1
	for _, width := range append(widths(p), 2) {
		weights += float64(in) * float64(width)
		in = width
	}
	return Bytes * weights * float64(t.Targets.Cols)
}

// widths returns the width of each hidden layer.
func widths(p ood.Params) []int {
	widths := []int{}
	for range p.Int("layers") {
		for width := range strings.SplitSeq(fmt.Sprint(p["hidden"]), "x") {
			n, _ := strconv.ParseFloat(width, 64)
			widths = append(widths, int(n))
		}
	}
	return widths
}

// DefaultEpochs returns the number of epochs that gives about 10,000 training steps for n
// rows. It is at least 10 and at most 500.
func DefaultEpochs(n, batch int) int {
	steps := (n + batch - 1) / batch
	return min(max(10_000/max(steps, 1), 10), 500)
}

// Train trains the networks for problem with the parameters of the configuration that is
// being fitted. It trains all configurations of the grid with the same architecture
// together, because that is faster.
func Train(ctx context.Context, t ood.Training, problem train.Problem) (Regression, error) {
	type shape struct {
		hidden        string
		batch, epochs int
	}
	shapeOf := func(v ood.Params) shape {
		return shape{fmt.Sprint(widths(v)), v.Int("batch"), v.Int("epochs")}
	}
	return memo.OncePerKey(ctx, t, shapeOf, func(same []ood.Params, report func(float64)) ([]Regression, error) {
		p, first := problem, same[0]
		p.Hidden, p.BatchSize = widths(first), first.Int("batch")
		p.Epochs = cmp.Or(first.Int("epochs"), DefaultEpochs(t.Len(), p.BatchSize))
		if t.Validation.Rows > 0 {
			p.Validation = &train.Validation{X: t.Validation, Y: t.ValidationTargets}
			if p.Conditional {
				p.Validation.Levels = t.Levels
			}
		}
		p.Progress = report
		for _, v := range same {
			p.Models = append(p.Models, train.ModelConfig{
				Seed: t.Seed, LearningRate: v.Float("learning_rate"), WeightDecay: v.Float("weight_decay"),
				Dropout: v.Float("dropout"), Averaging: v.Float("averaging"),
			})
		}
		return Fit(ctx, t.Features, t.Targets, t.Trainer, p)
	})
}
