package baselines

import "github.com/attach-uncertainty/attach/ood"

var maxLogitMethod = logitMethod(ood.Method{
	Name: "max-logit",
	Doc: "Minus the largest logit. Unlike a softmax, it keeps how far all logits are from zero. " +
		"The method \"largest\" has it too, as one entry of its grid.",
	Ref: "Hendrycks et al. 2022, arXiv:1911.11132",
}, minusLargest, minusLargestGraph)
