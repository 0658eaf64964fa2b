package baselines

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var gradNormMethod = ood.Method{
	Name: "gradnorm",
	Doc: "Minus the sum of a gradient's absolute values with respect to the weights of the last layer, which is larger for in-distribution rows. Try it if " +
		"nothing of the training rows may be stored: it has nothing to fit. It is the gradient of KL(uniform ‖ softmax(logits / temperature)). In closed form " +
		"it is ‖φ‖₁ · ‖softmax(logits / temperature) − 1/c‖₁ / temperature.",
	Ref:    "Huang, Geng & Li 2021, arXiv:2110.00218",
	Needs:  ood.Needs{Features: true, Logits: true},
	Params: []ood.Param{{Name: "temperature", Default: 1, Takes: "positive", Sweep: []any{1}}},
	Fit: func(_ context.Context, _ ood.Training, p ood.Params) (any, error) {
		return &gradNorm{p.Float("temperature")}, nil
	},
	New: func() any { return &gradNorm{} },
}

type gradNorm struct {
	Temperature float64 `state:"temperature,positive"`
}

func (s *gradNorm) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		var features, output float64
		for _, v := range row(b.Features, i) {
			features += math.Abs(float64(v))
		}
		z := row(b.Logits, i)
		p := softmax.New(z, s.Temperature)
		for _, v := range z {
			output += math.Abs(p.Of(v, s.Temperature) - 1/float64(len(z)))
		}
		dst[i] = -features * output / s.Temperature
	}
	return nil
}

func (s *gradNorm) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	output := b.Logits.Double().Div(s.Temperature).Softmax().Sub(1 / float64(b.Logits.Cols())).Abs().Sum()
	return b.Features.Double().Abs().Sum().Mul(output).Div(-s.Temperature), nil
}
