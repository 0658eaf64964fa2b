package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var gradientUncertaintyMethod = ood.Method{
	Name: "gradient-uncertainty",
	Doc: "Minus the squared norm of a gradient with respect to the last layer, which is larger for in-distribution rows. Try it if nothing of the training rows " +
		"may be stored: it has nothing to fit. It is the gradient of −Σ log softmax(logits), over all classes, with respect to weights and biases. In closed " +
		"form it is (‖φ‖² + 1) · ‖c·softmax(logits) − 1‖² for c classes.",
	Ref:   "Lee & AlRegib 2020, arXiv:2008.08030, on the last layer and without its classifier of in-distribution and OOD rows; as pytorch-ood's GradUncertainty",
	Needs: ood.Needs{Features: true, Logits: true},
	Fit:   func(context.Context, ood.Training, ood.Params) (any, error) { return &gradientUncertainty{}, nil },
	New:   func() any { return &gradientUncertainty{} },
}

type gradientUncertainty struct{}

func (gradientUncertainty) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		features, output := 1., 0.
		for _, v := range row(b.Features, i) {
			features += float64(v) * float64(v)
		}
		z := row(b.Logits, i)
		p := softmax.New(z, 1)
		for _, v := range z {
			d := float64(len(z))*p.Of(v, 1) - 1
			output += d * d
		}
		dst[i] = -features * output
	}
	return nil
}

func (gradientUncertainty) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	z := b.Logits.Double()
	output := z.Sub(z.LogSumExp()).Exp().Mul(float64(z.Cols())).Sub(1.).Square().Sum()
	return b.Features.Double().Square().Sum().Add(1.).Mul(output).Neg(), nil
}
