package measure

// Crossing is the share of rows of which any two neighbouring levels cross, that
// is the higher level has the lower quantile, and the share of neighbouring
// levels, over all rows, that do. Both are 0 where there is one level.
func (f Forecasts) Crossing() (rows, pairs float64) {
	crossed := func(q []float32) (n float64) {
		for l := range len(q) - 1 {
			if q[l+1] < q[l] {
				n++
			}
		}
		return n
	}
	rows = f.mean(func(q []float32, _ float64) float64 { return min(crossed(q), 1) })
	pairs = f.mean(func(q []float32, _ float64) float64 { return crossed(q) / float64(max(len(q)-1, 1)) })
	return rows, pairs
}
