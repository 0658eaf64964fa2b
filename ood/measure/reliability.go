package measure

import "math"

// Reliability is the share of targets up to the quantile, at each of the
// levels: the calibration curve, the levels themselves where forecasts are
// calibrated.
//
// Reference: Kuleshov, Fenner & Ermon (2018), Accurate Uncertainties for Deep
// Learning Using Calibrated Regression, section 3.
func (f Forecasts) Reliability() []float64 {
	shares := make([]float64, len(f.Levels))
	for l := range f.Levels {
		shares[l] = f.mean(func(q []float32, y float64) float64 {
			if y <= float64(q[l]) {
				return 1
			}
			return 0
		})
	}
	return shares
}

// CalibrationError is the distance of Reliability from the levels: the mean of
// its absolute values and the root of its mean square, over the levels.
func (f Forecasts) CalibrationError() (meanAbsolute, rootMeanSquare float64) {
	n := float64(len(f.Levels))
	for l, share := range f.Reliability() {
		d := share - f.Levels[l]
		meanAbsolute += math.Abs(d) / n
		rootMeanSquare += d * d / n
	}
	return meanAbsolute, math.Sqrt(rootMeanSquare)
}
