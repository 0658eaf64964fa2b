package jpeg

// The inverse transform is that of Loeffler, Ligtenberg and Moschytz (1989) in
// fixed point: constants with 13 fractional bits, two more bits kept between
// the passes, and each pass rounded to nearest. Everything between two
// roundings is exact, so any implementation of the same constants agrees.
const (
	constBits = 13
	passBits  = 2

	// √2·cos(kπ/16) and sums of them, times 2¹³.
	c0298 = 2446
	c0390 = 3196
	c0541 = 4433
	c0765 = 6270
	c0899 = 7373
	c1175 = 9633
	c1501 = 12299
	c1847 = 15137
	c1961 = 16069
	c2053 = 16819
	c2562 = 20995
	c3072 = 25172
)

// transform8 is the one-dimensional transform of eight coefficients, scaled by
// 2¹³·√8.
func transform8(x0, x1, x2, x3, x4, x5, x6, x7 int32) (y [8]int32) {
	even := (x2 + x6) * c0541
	e2 := even - x6*c1847
	e3 := even + x2*c0765
	e0 := (x0 + x4) << constBits
	e1 := (x0 - x4) << constBits
	a0, a3 := e0+e3, e0-e3
	a1, a2 := e1+e2, e1-e2

	all := (x7 + x3 + x5 + x1) * c1175
	z73 := all - (x7+x3)*c1961
	z51 := all - (x5+x1)*c0390
	z71 := (x7 + x1) * -c0899
	z53 := (x5 + x3) * -c2562
	b0 := x7*c0298 + z71 + z73
	b1 := x5*c2053 + z53 + z51
	b2 := x3*c3072 + z53 + z73
	b3 := x1*c1501 + z71 + z51

	return [8]int32{a0 + b3, a1 + b2, a2 + b1, a3 + b0, a3 - b0, a2 - b1, a1 - b2, a0 - b3}
}

// inverse turns one block of coefficients into samples.
func inverse(coef []int16, q *[64]int32, dst []uint8, stride int) {
	var mid [64]int32
	const round1 = 1 << (constBits - passBits - 1)
	for i := range 8 {
		c := coef[i : i+57 : i+57]
		x0 := int32(c[0]) * q[i]
		if c[8]|c[16]|c[24]|c[32]|c[40]|c[48]|c[56] == 0 {
			for k := range 8 {
				mid[8*k+i] = x0 << passBits
			}
			continue
		}
		y := transform8(x0, int32(c[8])*q[8+i], int32(c[16])*q[16+i], int32(c[24])*q[24+i],
			int32(c[32])*q[32+i], int32(c[40])*q[40+i], int32(c[48])*q[48+i], int32(c[56])*q[56+i])
		for k, v := range y {
			mid[8*k+i] = (v + round1) >> (constBits - passBits)
		}
	}
	const shift = constBits + passBits + 3
	for k := range 8 {
		m := mid[8*k : 8*k+8 : 8*k+8]
		y := transform8(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7])
		row := dst[k*stride : k*stride+8 : k*stride+8]
		for i, v := range y {
			row[i] = uint8(min(max((v+1<<(shift-1))>>shift+128, 0), 255))
		}
	}
}

// samples transforms all of a component's blocks.
func (c *component) samples(q *[64]int32) []uint8 {
	stride := 8 * c.stride
	out := make([]uint8, len(c.coef))
	for y := range c.height {
		for x := range c.width {
			inverse(c.block(x, y), q, out[8*y*stride+8*x:], stride)
		}
	}
	return out
}
