package baselines

import "github.com/attach-uncertainty/attach/heads"

// QuantileMethods lists every method that predicts quantiles, in alphabetical
// order.
var QuantileMethods = []heads.QuantileMethod{
	ConditionalGaussian,
	Boosting,
	DropoutQuantiles,
	QualityDriven,
	QuantileForest,
	SQR,
	SQRTwoLevel,
}

// QuantileByName finds a method of QuantileMethods.
func QuantileByName(name string) (heads.QuantileMethod, bool) {
	for _, m := range QuantileMethods {
		if m.Name == name {
			return m, true
		}
	}
	return heads.QuantileMethod{}, false
}
