package baselines

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var functionalMethod = logitMethod(ood.Method{
	Name: "functional",
	Doc: "Minus the difference between the two largest entries of softmax(logits / temperature), or of the logits if logits=true. Use it to flag inputs that " +
		"lie between two classes for the model.",
	Ref:    "functional margin, Tagasovska & Lopez-Paz 2019, table 2",
	Params: []ood.Param{{Name: "temperature", Default: 1, Takes: "positive"}, {Name: "logits", Default: false}},
	Sweep:  temperaturesOrLogits(),
}, minusMargin, minusMarginGraph)

func minusMargin(z []float32, temperature float64) float64 {
	first, second := math.Inf(-1), math.Inf(-1)
	for _, v := range z {
		v := float64(v)
		switch {
		case math.IsNaN(v):
			return v
		case v > first:
			first, second = v, first
		case v > second:
			second = v
		}
	}
	if temperature == 0 {
		return second - first
	}
	return math.Expm1((second-first)/temperature) * softmax.New(z, temperature).Largest()
}

func minusMarginGraph(z graph.Tensor, temperature float64) graph.Tensor {
	topTwo, _ := z.Top(2)
	margin := topTwo.Columns(1, 2).Sub(topTwo.Columns(0, 1))
	if temperature == 0 {
		return margin
	}
	z = z.Div(temperature)
	return margin.Div(temperature).Exp().Sub(1.).Div(z.Sub(z.RowMax()).Exp().Sum())
}
