package baselines

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var largestMethod = logitMethod(ood.Method{
	Name: "largest",
	Doc: "Minus the largest entry of softmax(logits / temperature), or of the logits if logits=true. Use it as the baseline that any other detector should " +
		"beat. With the softmax, it is the usual confidence.",
	Ref:    "Hendrycks & Gimpel 2017, arXiv:1610.02136; on logits: Hendrycks et al. 2022, arXiv:1911.11132",
	Params: []ood.Param{{Name: "temperature", Default: 1, Takes: "positive"}, {Name: "logits", Default: false}},
	Sweep:  temperaturesOrLogits(),
}, minusLargest, minusLargestGraph)

func temperaturesOrLogits() []ood.Params {
	return []ood.Params{{"temperature": 1.}, {"temperature": 2.}, {"temperature": 10.}, {"logits": true}}
}

func minusLargest(z []float32, temperature float64) float64 {
	if temperature == 0 {
		return -float64(slices.Max(z))
	}
	return -softmax.New(z, temperature).Largest()
}

func minusLargestGraph(z graph.Tensor, temperature float64) graph.Tensor {
	if temperature == 0 {
		return z.RowMax().Neg()
	}
	z = z.Div(temperature)
	return z.Sub(z.RowMax()).Exp().Sum().Neg().Reciprocal()
}
