package baselines

import (
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var ashSMethod = reshapingMethod(ood.Method{
	Name: "ash-s",
	Doc: "Energy of the logits after all but a row's largest features are set to 0, and the largest are scaled up. Try it for networks whose last layer reads " +
		"features after a ReLU; it stores only that layer. Features below a percentile become 0, and the others are multiplied by exp(sum of all features / " +
		"sum of the others). It is applied to the features that enter the last layer, averaged over space. Among equal features the last ones are pruned " +
		"first.",
	Ref:    "Djurisic, Bozanic, Ashok & Liu 2023, arXiv:2209.09858",
	Params: []ood.Param{percentile(90, 65, 70, 75, 80, 85, 90, 95)},
}, reshaping{func(dst, phi []float32, largest largestFeatures) float64 {
	for j := range largest.positions(phi) {
		dst[j] = phi[j]
	}
	return largest.sharpening(len(phi))
}, func(phi, largest, at graph.Tensor) (changed, factor graph.Tensor) {
	return phi.Mul(0.).Scatter(largest, at), sharpeningGraph(phi, largest)
}})
