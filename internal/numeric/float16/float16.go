// Package float16 decodes IEEE 754 half-precision numbers.
package float16

import "math"

// Decode returns the half-precision number with these bits as a float32, which represents it
// exactly.
func Decode(bits uint16) float32 {
	sign := uint32(bits&0x8000) << 16
	exp := uint32(bits >> 10 & 0x1f)
	frac := uint32(bits & 0x3ff)
	switch exp {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)/(1<<24)))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
