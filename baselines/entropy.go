package baselines

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var entropyMethod = logitMethod(ood.Method{
	Name: "entropy",
	Doc: "Entropy of softmax(logits / temperature), in nats. Use it to flag inputs for which the model hesitates between classes; confident mistakes go " +
		"unnoticed.",
	Ref:    "Shannon 1948; as a baseline in Tagasovska & Lopez-Paz 2019, table 2",
	Params: []ood.Param{{Name: "temperature", Default: 1, Takes: "positive", Sweep: []any{1, 2, 10}}},
}, entropy, entropyGraph)

func entropy(z []float32, temperature float64) float64 {
	s := softmax.New(z, temperature)
	// With u = z/T − max(z/T), the entropy is log Σeᵘ − Σ u·eᵘ / Σeᵘ. The second sum can
	// omit the top class, because its u is 0. It can also omit classes of probability 0.
	var sum float64
	for j, v := range z {
		if j == s.Top {
			continue
		}
		u := float64(v)/temperature - s.Max
		if e := math.Exp(u); e != 0 {
			sum += u * e
		}
	}
	return math.Log1p(s.Excess) - sum/(1+s.Excess)
}

func entropyGraph(z graph.Tensor, temperature float64) graph.Tensor {
	if z.Cols() == 1 {
		return z.Mul(0.)
	}
	below, _ := z.Div(temperature).Top(z.Cols())
	below = below.Columns(1, z.Cols()).Sub(below.Columns(0, 1)).Max(-700.) // because exp(−700) is still positive
	e := below.Exp()
	excess := e.Sum()
	return excess.Log1p().Sub(below.Mul(e).Sum().Div(excess.Add(1.)))
}
