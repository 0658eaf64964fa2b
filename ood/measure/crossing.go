package measure

// CrossedRows is the share of rows of which any two neighbouring levels cross:
// the higher level has the lower quantile. It is 0 where there is one level.
func (f Forecasts) CrossedRows() float64 {
	return f.mean(func(q []float32, _ float64) float64 {
		for l := range len(q) - 1 {
			if q[l+1] < q[l] {
				return 1
			}
		}
		return 0
	})
}

// CrossingRate is the share of neighbouring levels, over all rows, at which the
// higher level has the lower quantile. It is 0 where there is one level.
func (f Forecasts) CrossingRate() float64 {
	pairs := len(f.Levels) - 1
	if pairs == 0 {
		return 0
	}
	return f.mean(func(q []float32, _ float64) float64 {
		crossed := 0
		for l := range pairs {
			if q[l+1] < q[l] {
				crossed++
			}
		}
		return float64(crossed) / float64(pairs)
	})
}
