package calibrate

// NewResidual calibrates intervals of constant width around a point
// prediction: scores are |y − predicted|, and Interval(ŷ, ŷ, α) is ŷ ± the
// margin. It is the plain split conformal interval that CQR is compared with,
// and CQR with both quantiles equal to the prediction.
//
// Reference: Lei, G'Sell, Rinaldo, Tibshirani & Wasserman (2018),
// Distribution-Free Predictive Inference for Regression, algorithm 2.
func NewResidual(predicted, y []float64) (CQR, error) {
	return NewCQR(predicted, predicted, y)
}
