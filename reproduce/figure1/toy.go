package figure1

import (
	"math"
	"math/rand/v2"
)

// gapToy are the data of figure 1: y = sin(2πx) + e with e exponential of rate
// 3, on x in [0, 0.5) and [1.5, 2) alike. Noise is skewed, and known.
type gapToy struct{ x, y []float64 }

// Ends of the ranges of x: where data are, and what is drawn.
const (
	gapFrom, gapTo   = .5, 1.5
	dataFrom, dataTo = 0., 2.
	drawFrom, drawTo = -.5, 2.5
	noiseRate        = 3.
)

// toyQuantile is the true quantile of y given x.
func toyQuantile(x, tau float64) float64 {
	return math.Sin(2*math.Pi*x) - math.Log1p(-tau)/noiseRate
}

// drawToy draws n rows, half of them on either side of the gap.
func drawToy(rng *rand.Rand, n int) gapToy {
	t := gapToy{x: drawBetween(rng, n/2, dataFrom, gapFrom)}
	t.x = append(t.x, drawBetween(rng, n-n/2, gapTo, dataTo)...)
	for _, x := range t.x {
		t.y = append(t.y, math.Sin(2*math.Pi*x)+rng.ExpFloat64()/noiseRate)
	}
	return t
}

func drawBetween(rng *rand.Rand, n int, from, to float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = from + (to-from)*rng.Float64()
	}
	return x
}
