package calibrate

import (
	"math"
	"math/rand/v2"
)

// sampleStream keeps the draws apart from other uses of the same seed. sampleStride, which is
// odd, gives each row its own draws.
const (
	sampleStream = 0x73616d706c65
	sampleStride = 0x9e3779b97f4a7c15
)

// Sample fills dst with independent draws from the distribution, by the inverse transform of a
// quantile function that is linear between targets. Draws are finite and lie between the
// targets of the smallest and the largest calibration score, each of which has probability
// 1/(n+1). Without calibration rows, draws are ±Inf. row is the number of the row: equal seeds
// and rows give equal draws, whichever other rows are predicted.
//
// Reference: Devroye (1986), Non-Uniform Random Variate Generation, section II.2.
func (d Distribution) Sample(dst []float64, seed, row uint64) {
	rng := rand.New(rand.NewPCG(seed, row*sampleStride+sampleStream))
	for i := range dst {
		level := rng.Float64()
		for level == 0 {
			level = rng.Float64()
		}
		if dst[i] = d.interpolated(level); len(d.scores) == 0 {
			dst[i] = math.Copysign(math.Inf(1), level-.5)
		}
	}
}
