package measure

import "math"

// Sharpness is the root of the mean variance of the forecasts, in units of the
// target: how narrow they are, right or wrong. The targets do not matter.
// Rows must not cross.
//
// Reference: Kuleshov, Fenner & Ermon (2018), Accurate Uncertainties for Deep
// Learning Using Calibrated Regression, section 3.
func (f Forecasts) Sharpness() float64 {
	last := len(f.Levels) - 1
	return math.Sqrt(f.mean(func(q []float32, _ float64) float64 {
		origin := float64(q[0]) // near the mean, so that little cancels
		var mean, square float64
		add := func(probability, p, q float64) {
			p, q = p-origin, q-origin
			mean += probability * (p + q) / 2
			square += probability * (p*p + p*q + q*q) / 3
		}
		add(f.Levels[0], float64(q[0]), float64(q[0]))
		add(1-f.Levels[last], float64(q[last]), float64(q[last]))
		for l := range last {
			add(f.Levels[l+1]-f.Levels[l], float64(q[l]), float64(q[l+1]))
		}
		return square - mean*mean
	}))
}
