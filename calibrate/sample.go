package calibrate

import (
	"math/rand/v2"
)

// Sample fills dst with independent draws from the distribution that has the
// quantile function, by inverse transform: quantile is called with levels
// uniform in (0,1). Equal seed and row give equal draws; row numbers what is
// drawn for, so that a row's draws do not depend on the rows beside it. The
// draws are as calibrated as the quantile function: see Distribution.Sample.
//
// Reference: Devroye (1986), Non-Uniform Random Variate Generation, section
// II.2.
func Sample(dst []float64, seed, row uint64, quantile func(level float64) float64) {
	rng := rand.New(rand.NewPCG(seed, row*sampleStride+sampleStream))
	for i := range dst {
		level := rng.Float64()
		for level == 0 {
			level = rng.Float64()
		}
		dst[i] = quantile(level)
	}
}

// sampleStream keeps draws apart from other uses of the same seed, and
// sampleStride, which is odd, those of one row from those of the next.
const (
	sampleStream = 0x73616d706c65
	sampleStride = 0x9e3779b97f4a7c15
)

// Sample fills dst with draws from the distribution by its quantile function
// Interpolated: they are finite, and none lies beyond the targets of the least
// and the largest calibration score, where the distribution has 1/(n+1) of its
// probability each.
func (d Distribution) Sample(dst []float64, seed, row uint64) {
	Sample(dst, seed, row, d.Interpolated)
}
