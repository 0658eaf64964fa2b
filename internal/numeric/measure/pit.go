package measure

import "sort"

// PIT returns the probability integral transform of each target: the level at which the
// quantile equals the target. It is linear between levels, 0 below the lowest quantile and
// 1 above the highest. If several levels have a quantile that equals the target, PIT
// returns the middle of these levels. The transform of NaN is NaN. The lowest quantile
// counts as the quantile at all lower levels too, and the highest at all higher levels. If
// forecasts are calibrated, the values are uniform, except beyond the outermost levels. The
// quantiles of a row must not cross.
//
// Reference: Gneiting, Balabdaoui & Raftery (2007), Probabilistic Forecasts,
// Calibration and Sharpness, section 3.1.
func (f Forecasts) PIT() []float64 {
	f.check()
	out := make([]float64, len(f.Y))
	for i, y := range f.Y {
		out[i] = f.level(f.row(i), y)
	}
	return out
}

// level returns the distribution function of a row with quantiles q at y.
func (f Forecasts) level(q []float32, y float64) float64 {
	if y != y {
		return y
	}
	first := sort.Search(len(q), func(l int) bool { return float64(q[l]) >= y })
	end := sort.Search(len(q), func(l int) bool { return float64(q[l]) > y })
	switch {
	case end > first: // y equals several quantiles
		lo, hi := f.Levels[first], f.Levels[end-1]
		if first == 0 {
			lo = 0
		}
		if end == len(q) {
			hi = 1
		}
		return (lo + hi) / 2
	case first == 0:
		return 0
	case first == len(q):
		return 1
	}
	lo, hi := float64(q[first-1]), float64(q[first])
	return f.Levels[first-1] + (f.Levels[first]-f.Levels[first-1])*(y-lo)/(hi-lo)
}
