package float16

import (
	"math"
	"testing"
)

func TestDecode(t *testing.T) {
	// The values are from the tables of IEEE 754.
	for bits, want := range map[uint16]float32{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0400: 6.103515625e-05, 0x03ff: 6.097555160522461e-05,
		0x0001: 5.960464477539063e-08, 0x3555: 0.333251953125, 0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		if got := Decode(bits); got != want {
			t.Errorf("%#04x is %g, want %g", bits, got, want)
		}
	}
	for i := range 1 << 15 {
		exp, m := i>>10, float64(i&0x3ff)
		switch {
		case exp == 0x1f && m > 0:
			if v := Decode(uint16(i)); v == v {
				t.Fatalf("%#04x is %g, and not NaN", i, v)
			}
			continue
		case exp == 0x1f:
			continue
		case exp > 0:
			exp, m = exp-1, m+1024
		}
		want := float32(math.Ldexp(m, exp-24))
		if got, negative := Decode(uint16(i)), Decode(uint16(i|0x8000)); got != want || negative != -want || !math.Signbit(float64(negative)) {
			t.Fatalf("%#04x is %g, and its negative %g, want %g", i, got, negative, want)
		}
	}
}
