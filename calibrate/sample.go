package calibrate

import (
	"math"
	"math/rand/v2"
)

// sampleStream keeps draws apart from other uses of the same seed, and
// sampleStride, which is odd, those of one row from those of the next.
const (
	sampleStream = 0x73616d706c65
	sampleStride = 0x9e3779b97f4a7c15
)

// Sample fills dst with independent draws from the distribution, by inverse
// transform of a quantile function linear between targets: they are finite, and none lies beyond the targets of
// the least and the largest calibration score, where the distribution has 1/(n+1)
// of its probability each. Without calibration rows they are ±Inf. Equal seed and
// row give equal draws; row numbers what is drawn for, so that a row's draws do not
// depend on the rows beside it.
//
// Reference: Devroye (1986), Non-Uniform Random Variate Generation, section
// II.2.
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
