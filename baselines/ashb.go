package baselines

import (
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var ashBMethod = reshapingMethod(ood.Method{
	Name: "ash-b",
	Doc: "Energy of the logits after all but a row's largest features are set to 0, and the largest to one common value. Try it for networks whose last layer " +
		"reads features after a ReLU; it stores only that layer. Features below a percentile become 0, and the sum of all features is spread equally over the " +
		"others. It is applied to the features that enter the last layer, averaged over space. Among equal features the last ones are pruned first.",
	Ref:    "Djurisic, Bozanic, Ashok & Liu 2023, arXiv:2209.09858",
	Params: []ood.Param{percentile(90, 65, 70, 75, 80, 85, 90, 95)},
}, reshaping{func(dst, phi []float32, largest largestFeatures) float64 {
	for j := range largest.positions(phi) {
		dst[j] = 1
	}
	return largest.all / float64(largest.k)
}, func(phi, largest, at graph.Tensor) (changed, factor graph.Tensor) {
	return phi.Mul(0.).Scatter(largest.Mul(0.).Add(1.), at), phi.Double().Sum().Div(float64(largest.Cols()))
}})
