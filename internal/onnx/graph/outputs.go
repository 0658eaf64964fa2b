package graph

// These constants are the names of the outputs and optional inputs of an exported graph.
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
