package measure

import "fmt"

// Forecasts are predicted quantiles of one target, and what came true. Their
// methods are metrics; all lengths must fit, or they panic.
//
// Between its levels a quantile function is linear, beyond them constant: the
// lowest quantile has the probability of the lowest level, and the highest one
// of what is left above.
type Forecasts struct {
	Levels    []float64 // increasing, in (0,1)
	Quantiles []float32 // n×len(Levels), row-major
	Y         []float64 // n
}

// row is the quantile function of row i.
func (f Forecasts) row(i int) []float32 {
	n := len(f.Levels)
	return f.Quantiles[i*n : (i+1)*n]
}

func (f Forecasts) check() {
	if len(f.Levels) == 0 || len(f.Quantiles) != len(f.Y)*len(f.Levels) {
		panic(fmt.Sprintf("measure: %d quantiles at %d levels for %d targets", len(f.Quantiles), len(f.Levels), len(f.Y)))
	}
}

// mean is the mean of a metric over rows, NaN where there are none.
func (f Forecasts) mean(metric func(q []float32, y float64) float64) float64 {
	f.check()
	var sum float64
	for i, y := range f.Y {
		sum += metric(f.row(i), y)
	}
	return sum / float64(len(f.Y))
}
