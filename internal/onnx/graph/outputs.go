package graph

// Names of the outputs and optional inputs of a graph that a bundle was written to.
const (
	PValue        = "attach.p_value"
	OODScore      = "attach.ood_score"
	IsOOD         = "attach.is_ood"
	Lower         = "attach.lower"
	Upper         = "attach.upper"
	QuantilesOut  = "attach.quantiles"
	PredictionSet = "attach.prediction_set"
	Probabilities = "attach.probabilities"
	Alpha         = "attach.alpha"
	Level         = "attach.level"
)

// Options says how a bundle is written to a graph.
type Options struct {
	Alpha, Level float64 // defaults of the optional inputs; 0 is the bundle's
	// Sets is the score that classes in sets are ranked by; "" stands for lac, and
	// "none" asks for no sets.
	Sets string
	// Rows is the first axis of outputs, as Builder.Input takes it.
	Rows any
}
