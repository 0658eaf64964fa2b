package baselines

import (
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var energyMethod = logitMethod(ood.Method{
	Name: "energy",
	Doc: "Free energy −temperature · log Σ exp(logits / temperature), which is lower for in-distribution rows. Use it as the standard baseline for classifiers: " +
		"it needs only logits, and has nothing to fit.",
	Ref:    "Liu, Wang, Owens & Li 2020, arXiv:2010.03759",
	Params: []ood.Param{{Name: "temperature", Default: 1, Takes: "positive", Sweep: []any{1, 10, 100, 1000}}},
}, energy, energyGraph)

func energy(z []float32, temperature float64) float64 {
	return -temperature * softmax.New(z, temperature).LogSum()
}

func energyGraph(z graph.Tensor, temperature float64) graph.Tensor {
	return z.Double().Div(temperature).LogSumExp().Mul(-temperature)
}
