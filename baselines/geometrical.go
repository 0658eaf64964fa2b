package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var geometricalMethod = ood.Method{
	Name: "geometrical",
	Doc: "Minus an estimate of the distance from the input to the decision boundary between the two most probable classes: a margin divided by the norm of a " +
		"gradient. Use it if distances between inputs matter; each row costs a gradient of the network. The margin is the difference between the two largest " +
		"entries of softmax(logits / temperature), or of the logits if logits=true; the gradient is with respect to the input. The default divides the " +
		"difference of the softmax at temperature 1, as in the paper, by its own gradient (gradient=margin). With gradient=sum, the gradient is that of the " +
		"sum of the logits, as printed in the paper. logits=true with gradient=margin, which the paper's grid lacks, gives minus the exact distance to the " +
		"decision boundary between the two classes, for the network linearised around the input. The distance by the softmax agrees with it only near the " +
		"boundary.",
	Ref:   "geometrical margin, Tagasovska & Lopez-Paz 2019, table 2; the distance: Elsayed et al. 2018, arXiv:1803.05598",
	Needs: ood.Needs{Logits: true, Inputs: true, Network: true},
	Params: []ood.Param{
		{Name: "temperature", Default: 1, Takes: "positive"},
		{Name: "gradient", Default: gradientMargin, Takes: "of=" + gradientMargin + "|" + gradientSum}, {Name: "logits", Default: false},
	},
	Sweep: []ood.Params{
		{"temperature": 1., "gradient": gradientSum}, {"temperature": 2., "gradient": gradientSum},
		{"temperature": 10., "gradient": gradientSum}, {"logits": true, "gradient": gradientSum},
	},
	Fit: func(_ context.Context, _ ood.Training, p ood.Params) (any, error) {
		s := &geometrical{p.Float("temperature"), p["gradient"].(string)}
		if p["logits"].(bool) {
			s.Temperature = 0
		}
		return s, nil
	},
	New: func() any { return &geometrical{} },
}

// These are the values of the parameter "gradient".
const (
	gradientSum    = "sum"
	gradientMargin = "margin"
)

type geometrical struct {
	Temperature float64 `state:"temperature,least=0"` // temperature of the softmax; 0 means logits without a softmax
	Gradient    string  `state:"gradient,of=sum|margin"`
}

// scalar returns the function of the logits that is differentiated.
func (s *geometrical) scalar() ood.Scalar {
	if s.Gradient == gradientSum {
		return ood.Scalar{Sum: true}
	}
	return ood.Scalar{TopTwo: true, Softmax: s.Temperature > 0, Temperature: s.Temperature}
}

// Score implements ood.Detector. Scorers that differentiate the same function share its
// gradient.
func (s *geometrical) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	z, g, err := gradientOf(ctx, b, s.scalar())
	if err != nil {
		return err
	}
	width := len(g.Data) / len(dst)
	for i := range dst {
		dst[i] = minusMargin(row(z, i), s.Temperature) / norm(g.Data[i*width:(i+1)*width])
	}
	return nil
}

func (s *geometrical) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it runs the network with its gradient: geometrical-features has a graph")
}
