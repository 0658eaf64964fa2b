package pixels

// Two rows are worked on at once, which takes half the multiplications: a uint64 is
// two lanes of 32 bits, a sample of the first row in the low one and of the second in
// the high one. No sum overflows its lane.

// pairs gives an image two rows at a time.
type pairs interface {
	// pair writes rows y, which is even, and y+1 to dst. What is in the high lanes does
	// not matter where there is no row y+1.
	pair(y int, dst []uint64)
}

// each is one in both lanes, and times a number it is that number in both.
const each = 1 | 1<<32

// pair implements pairs.
func (m *Image) pair(y int, dst []uint64) {
	n := m.Width * m.Channels
	first, second := m.Pix[y*n:][:len(dst)], m.Pix[min(y+1, m.Height-1)*n:][:len(dst)]
	for i := range dst {
		dst[i] = uint64(first[i]) | uint64(second[i])<<32
	}
}

// high is the number in the high lane. The low one borrowed from it where it is
// negative.
func high(sum uint64) int32 { return int32((sum - uint64(int32(sum))) >> 32) }
