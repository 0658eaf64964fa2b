package attach_test

import "github.com/attach-uncertainty/attach/internal/attachtest"

var (
	softmaxRows     = attachtest.Drawn
	joinRows        = attachtest.Joined
	method          = attachtest.Method
	matrix          = attachtest.Matrix
	blob            = attachtest.Blob
	layersOf        = attachtest.Layers
	classifier      = attachtest.Classifier
	regressor       = attachtest.Regressor
	mustFit         = attachtest.Fit
	mustWrite       = attachtest.Write
	read            = attachtest.Read
	mustPredict     = attachtest.Predict
	predictRows     = attachtest.PredictRows
	predict         = attachtest.TryPredict
	targetsOf       = attachtest.Cells
	samePredictions = attachtest.Same
	blocksOf        = attachtest.Blocks
	mustEvaluate    = attachtest.Evaluate
)
