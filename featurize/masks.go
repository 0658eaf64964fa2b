package featurize

import "math/rand/v2"

// dropMask fills mask, rows×width, with 0 at rate and 1/(1−rate) elsewhere.
// Every row gets the same, which depends on the seed, the pass and the layer: a
// pass is one thinned network, and what it says of a row does not depend on
// where the row stands.
func dropMask(mask []float32, rows int, rate float64, seed uint64, pass, layer int) {
	if rows == 0 {
		return
	}
	width := len(mask) / rows
	keep := float32(1 / (1 - rate))
	limit := uint64(rate * (1 << 32))
	// Generators with close seeds give close numbers, so these are hashed.
	h := splitMix(splitMix(seed+uint64(pass)) + uint64(layer))
	rng := rand.NewPCG(h, splitMix(h))
	first := mask[:width]
	bits := uint64(0)
	for j := range first {
		if j%2 == 0 {
			bits = rng.Uint64()
		} else {
			bits >>= 32
		}
		first[j] = keep
		if bits&(1<<32-1) < limit {
			first[j] = 0
		}
	}
	for i := 1; i < rows; i++ {
		copy(mask[i*width:], first)
	}
}

// splitMix is the finaliser of Steele, Lea and Flood, Fast splittable
// pseudorandom number generators, OOPSLA 2014.
func splitMix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
