package measure

import "fmt"

// Forecasts holds predicted quantiles of one target, and the true targets. The methods of
// Forecasts are metrics. They panic if lengths do not match or if there are no levels.
//
// The quantile function is linear between levels and constant beyond them. The lowest quantile
// therefore has the probability of the lowest level, and the highest quantile has one minus
// the highest level.
type Forecasts struct {
	Levels    []float64 // increasing, in (0,1)
	Quantiles []float32 // predicted quantiles of n rows, n×len(Levels), row-major
	Y         []float64 // true targets, n
}

// row returns the quantiles of row i.
func (f Forecasts) row(i int) []float32 {
	n := len(f.Levels)
	return f.Quantiles[i*n : (i+1)*n]
}

func (f Forecasts) check() {
	if len(f.Levels) == 0 || len(f.Quantiles) != len(f.Y)*len(f.Levels) {
		panic(fmt.Sprintf("measure: %d quantiles at %d levels for %d targets", len(f.Quantiles), len(f.Levels), len(f.Y)))
	}
}

// mean returns the mean of a metric over rows, or NaN if there are no rows.
func (f Forecasts) mean(metric func(q []float32, y float64) float64) float64 {
	f.check()
	var sum float64
	for i, y := range f.Y {
		sum += metric(f.row(i), y)
	}
	return sum / float64(len(f.Y))
}
