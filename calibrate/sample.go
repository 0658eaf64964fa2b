package calibrate

import (
	"math"
	"math/rand/v2"
)

// Each row has its own stream of random numbers. The stream of row i has the number
// i·sampleStride plus a constant that differs between uses of the same seed. sampleStride is
// odd, so the numbers of different rows differ.
const (
	sampleStream = 0x73616d706c65
	sampleStride = 0x9e3779b97f4a7c15
)

// Sample fills dst with independent draws from the distribution. It inverts a quantile
// function that is linear between targets, so all draws lie between the targets of the
// smallest and the largest calibration score. Each of these two targets has probability
// 1/(n+1) for n calibration rows. Without calibration rows, or if the row alone has all the
// weight, draws are ±Inf. row is the row number. Equal seeds and rows give equal draws, whichever other rows are predicted.
//
// Reference: Devroye (1986), Non-Uniform Random Variate Generation, section II.2.
func (d Distribution) Sample(dst []float64, seed, row uint64) {
	rng := rand.New(rand.NewPCG(seed, row*sampleStride+sampleStream))
	for i := range dst {
		level := rng.Float64()
		for level == 0 {
			level = rng.Float64()
		}
		if dst[i] = d.interpolatedQuantile(level); math.IsNaN(dst[i]) {
			dst[i] = math.Copysign(math.Inf(1), level-.5)
		}
	}
}
