package baselines

import (
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var scaleMethod = reshapingMethod(ood.Method{
	Name: "scale",
	Doc: "Energy of the logits after all features of a row are scaled up, more if its largest features hold a smaller part of their sum. Try it for networks " +
		"whose last layer reads features after a ReLU; it stores only that layer. The factor is exp(sum of all / sum of those above a percentile). It is " +
		"applied to the features that enter the last layer, averaged over space.",
	Ref:    "Xu, Chen, Franchi & Yao 2024, arXiv:2310.00227",
	Params: []ood.Param{percentile(85, 65, 70, 75, 80, 85, 90, 95)},
}, reshaping{func(dst, phi []float32, largest largestFeatures) float64 {
	copy(dst, phi)
	return largest.sharpening(len(phi))
}, func(phi, largest, _ graph.Tensor) (changed, factor graph.Tensor) {
	return phi, sharpeningGraph(phi, largest)
}})
