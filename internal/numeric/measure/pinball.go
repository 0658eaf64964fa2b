package measure

func pinball(q, y, tau float64) float64 {
	if y >= q {
		return tau * (y - q)
	}
	return (1 - tau) * (q - y)
}

// Pinball is the mean quantile loss at each of the levels τ: τ of what targets
// exceed quantiles by, and 1−τ of what quantiles exceed targets by.
//
// Reference: Koenker & Bassett (1978), Regression Quantiles.
func (f Forecasts) Pinball() []float64 {
	losses := make([]float64, len(f.Levels))
	for l, tau := range f.Levels {
		losses[l] = f.mean(func(q []float32, y float64) float64 { return pinball(float64(q[l]), y, tau) })
	}
	return losses
}
