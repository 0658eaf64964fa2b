package measure

// pinball returns the quantile loss of the quantile q at level tau for the target y.
func pinball(q, y, tau float64) float64 {
	if y >= q {
		return tau * (y - q)
	}
	return (1 - tau) * (q - y)
}

// Pinball returns the mean quantile loss at each level τ. The loss is τ times the amount by
// which the target exceeds the quantile, or 1−τ times the amount by which the quantile exceeds
// the target.
//
// Reference: Koenker & Bassett (1978), Regression Quantiles.
func (f Forecasts) Pinball() []float64 {
	losses := make([]float64, len(f.Levels))
	for l, tau := range f.Levels {
		losses[l] = f.mean(func(q []float32, y float64) float64 { return pinball(float64(q[l]), y, tau) })
	}
	return losses
}
