package networks

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// Doc describes Params.
const Doc = " The network has hidden layers of hidden units, \"64x32\" for several of a width each, layers times over: layers=0 is a linear model. " +
	"It is trained by Adam with learning_rate, weight_decay in the gradient and dropout, in batches of batch rows; epochs=0 passes over them as often as " +
	"makes about 10 000 steps. averaging is the factor of a running mean of the weights over epochs. Several targets have a network each."

// Params are those of a network, swept over the paper's learning rates and
// weight decays, for each of the dropout rates, of which the first is the
// default.
func Params(dropout ...any) []ood.Param {
	return []ood.Param{
		ood.Number("learning_rate", 1e-3).Above(0).Over(1e-2, 1e-3, 1e-4),
		ood.Number("weight_decay", 0).AtLeast(0).Over(0, 1e-3, 1e-2, 1e-1, 1),
		ood.Number("dropout", dropout[0].(float64)).AtLeast(0).Below(1).Over(dropout...),
		ood.Number("averaging", 0).AtLeast(0).Below(1),
		ood.LayerWidths("hidden", 64).AtMost(1 << 16), ood.Count("layers", 1).AtLeast(0).AtMost(100),
		ood.Count("batch", 64), ood.Count("epochs", 0).AtLeast(0),
	}
}

// Bytes are what training takes for each weight.
const Bytes = 64

// Memory is what training takes.
func Memory(t ood.Training, p ood.Values) float64 {
	weights, in := 0., t.Features.Cols+1
	for _, width := range append(widths(p), 2) {
		weights += float64(in) * float64(width)
		in = width
	}
	return Bytes * weights * float64(t.Targets.Cols)
}

func widths(p ood.Values) []int {
	widths := []int{}
	for range p.Int("layers") {
		widths = append(widths, p.Widths("hidden")...)
	}
	return widths
}

// DefaultEpochs is the number of passes over n rows that make about 10 000
// steps, within [10, 500].
func DefaultEpochs(n, batch int) int {
	steps := (n + batch - 1) / batch
	return min(max(10_000/max(steps, 1), 10), 500)
}

// Train trains what problem says is learnt with the parameters of one
// configuration, together with all of the grid that have the same architecture.
func Train(ctx context.Context, t ood.Training, problem train.Problem) (Regression, error) {
	type shape struct {
		hidden        string
		batch, epochs int
	}
	of := func(v ood.Values) shape {
		return shape{fmt.Sprint(widths(v)), v.Int("batch"), v.Int("epochs")}
	}
	return ood.Alike(t, of, func(same []ood.Values, tell func(float64)) ([]Regression, error) {
		p, first := problem, same[0]
		p.Hidden, p.BatchSize, p.Epochs = widths(first), first.Int("batch"), first.Int("epochs")
		if p.Epochs == 0 {
			p.Epochs = DefaultEpochs(t.Len(), p.BatchSize)
		}
		if t.Validation.Rows > 0 {
			p.Validation = &train.Validation{X: t.Validation, Y: t.ValidationTargets}
			if p.Conditional {
				p.Validation.Levels = t.Levels
			}
		}
		p.Progress = func(done, total int) { tell(float64(done) / float64(total)) }
		for _, v := range same {
			p.Models = append(p.Models, train.ModelConfig{
				Seed: t.Seed, LearningRate: v.Float("learning_rate"), WeightDecay: v.Float("weight_decay"),
				Dropout: v.Float("dropout"), Averaging: v.Float("averaging"),
			})
		}
		return Fit(ctx, t.Features, t.Targets, t.Trainer, p)
	})
}
