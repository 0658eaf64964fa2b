// Package float16 converts IEEE 754 half-precision numbers from and to their
// bits.
package float16

import "math"

// Encode rounds x to the nearest half-precision number, ties to even, and
// returns its bits. What is too large becomes infinite.
func Encode(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case b < 0x38800000: // below 2⁻¹⁴: a subnormal, a multiple of 2⁻²⁴
		n := math.RoundToEven(float64(math.Float32frombits(b)) * (1 << 24))
		return sign | uint16(n)
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}

// Decode returns the number that has these bits. Every half is a float32.
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
