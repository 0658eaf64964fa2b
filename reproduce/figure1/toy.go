package figure1

import (
	"math"
	"math/rand/v2"
)

// gapToy holds the data of figure 1: y = sin(2πx) + e with e exponential of rate 3. Half of
// the x lie in [0, 0.5) and half in [1.5, 2). The noise is skewed and its distribution is
// known.
type gapToy struct{ x, y []float64 }

// The first six constants bound the ranges of x: the gap, the data and the plot. The last is
// the rate of the exponential noise.
const (
	gapFrom, gapTo   = .5, 1.5
	dataFrom, dataTo = 0., 2.
	drawFrom, drawTo = -.5, 2.5
	noiseRate        = 3.
)

// toyQuantile returns the true quantile of y given x at level tau.
func toyQuantile(x, tau float64) float64 {
	return math.Sin(2*math.Pi*x) - math.Log1p(-tau)/noiseRate
}

// drawToy draws n rows, half of them on each side of the gap.
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
