package measure

// CRPS returns the mean continuous ranked probability score in units of the target. Lower is
// better. The score is twice the integral of the quantile loss over all levels, computed in
// closed form for the quantile function of Forecasts. The quantiles of a row must not cross.
//
// Reference: Gneiting & Ranjan (2011), Comparing Density Forecasts Using
// Threshold- and Quantile-Weighted Scoring Rules, equation 6.
func (f Forecasts) CRPS() float64 {
	last := len(f.Levels) - 1
	return f.mean(func(q []float32, y float64) float64 {
		first, end := float64(q[0]), float64(q[last])
		sum := pinballIntegral(0, f.Levels[0], first, first, y) + pinballIntegral(f.Levels[last], 1, end, end, y)
		for l := range last {
			sum += pinballIntegral(f.Levels[l], f.Levels[l+1], float64(q[l]), float64(q[l+1]), y)
		}
		return 2 * sum
	})
}

// pinballIntegral returns the integral of the quantile loss at y over the levels from a to b.
// The quantile rises linearly from p to q ≥ p between these levels.
func pinballIntegral(a, b, p, q, y float64) float64 {
	if p < y && y < q {
		c := a + (b-a)*(y-p)/(q-p)
		return pinballIntegral(a, c, p, y, y) + pinballIntegral(c, b, y, q, y)
	}
	// On each side of y, the loss is quadratic in the level, so Simpson's rule is exact.
	loss := func(tau, v float64) float64 {
		if y >= q {
			return tau * (y - v)
		}
		return (1 - tau) * (v - y)
	}
	return (b - a) / 6 * (loss(a, p) + 4*loss((a+b)/2, (p+q)/2) + loss(b, q))
}
