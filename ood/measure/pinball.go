package measure

// Pinball is the mean quantile loss of predictions q of the quantile tau: τ of
// what targets exceed them by, and 1−τ of what they exceed targets by.
//
// Reference: Koenker & Bassett (1978), Regression Quantiles.
func Pinball(q, y []float64, tau float64) float64 {
	if len(q) != len(y) {
		panic("measure: quantiles and targets differ in length")
	}
	var sum float64
	for i := range y {
		sum += pinball(q[i], y[i], tau)
	}
	return sum / float64(len(y))
}

func pinball(q, y, tau float64) float64 {
	if y >= q {
		return tau * (y - q)
	}
	return (1 - tau) * (q - y)
}

// Pinball is the mean quantile loss at each of the levels.
func (f Forecasts) Pinball() []float64 {
	losses := make([]float64, len(f.Levels))
	for l, tau := range f.Levels {
		losses[l] = f.mean(func(q []float32, y float64) float64 { return pinball(float64(q[l]), y, tau) })
	}
	return losses
}
