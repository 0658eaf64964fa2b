package baselines

import "github.com/attach-uncertainty/attach/ood"

var maxLogitMethod = logitMethod(ood.Method{
	Name: "max-logit",
	Doc: "Minus the largest logit. Use it as a baseline that needs only logits, and has nothing to fit. Unlike a softmax, it depends on how far all logits are " +
		"from zero. It is also one configuration of the method `largest`.",
	Ref: "Hendrycks et al. 2022, arXiv:1911.11132",
}, minusLargest, minusLargestGraph)
