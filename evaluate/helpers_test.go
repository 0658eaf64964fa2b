package evaluate_test

import "github.com/attach-uncertainty/attach/internal/attachtest"

var (
	softmaxRows  = attachtest.Drawn
	joinRows     = attachtest.Joined
	method       = attachtest.Method
	matrix       = attachtest.Matrix
	blob         = attachtest.Blob
	classifier   = attachtest.Classifier
	regressor    = attachtest.Regressor
	mustFit      = attachtest.Fit
	mustPredict  = attachtest.Predict
	predict      = attachtest.TryPredict
	targetsOf    = attachtest.Cells
	blocksOf     = attachtest.Blocks
	mustEvaluate = attachtest.Evaluate
)
