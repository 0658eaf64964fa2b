package jpeg

import "errors"

// zigzag is the place in a block of the i-th coefficient as stored.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10,
	17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34,
	27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36,
	29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46,
	53, 60, 61, 54, 47, 55, 62, 63,
}

// peek is the length of codes that a table look-up decodes.
const peek = 9

// huffman is a code table. Codes of one length are consecutive numbers.
type huffman struct {
	values []uint8
	// last is the greatest code of each length, shifted to 16 bits and with
	// ones below, or -1; first is the index of a length's values less its
	// least code.
	last  [17]int32
	first [17]int32
	// short has, by the next bits, length<<8 | value, or 0 for longer codes.
	short [1 << peek]uint16
}

func (d *decoder) readHuffman(seg []byte) error {
	for len(seg) > 0 {
		if len(seg) < 17 || seg[0]&15 > 3 || seg[0]>>4 > 1 {
			return errors.New("a malformed Huffman table")
		}
		table := &d.dc[seg[0]&15]
		if seg[0]>>4 == 1 {
			table = &d.ac[seg[0]&15]
		}
		counts := seg[1:17]
		n := 0
		for _, c := range counts {
			n += int(c)
		}
		if n > 256 || len(seg) < 17+n {
			return errors.New("a malformed Huffman table")
		}
		h, err := newHuffman(counts, seg[17:17+n])
		if err != nil {
			return err
		}
		*table = h
		seg = seg[17+n:]
	}
	return nil
}

func newHuffman(counts, values []uint8) (*huffman, error) {
	h := &huffman{values: values}
	code, at := int32(0), int32(0)
	for n := 1; n <= 16; n++ {
		c := int32(counts[n-1])
		if code+c > 1<<n {
			return nil, errors.New("a Huffman table with more codes than there are")
		}
		h.last[n] = -1
		h.first[n] = at - code
		if c > 0 {
			h.last[n] = (code+c)<<(16-n) - 1
		}
		for range c {
			if n <= peek {
				from := code << (peek - n)
				for i := range int32(1) << (peek - n) {
					h.short[from+i] = uint16(n)<<8 | uint16(values[at])
				}
			}
			code++
			at++
		}
		code <<= 1
	}
	return h, nil
}

// bits reads entropy-coded data up to the next marker.
type bits struct {
	data []byte
	pos  int
	acc  uint64
	n    int // bits in acc
	over int // zero bits in acc that are not in the data
}

// fill makes at least 32 bits available, zeros where the data ends.
func (b *bits) fill() {
	for b.n <= 56 {
		var v uint64
		switch {
		case b.pos >= len(b.data):
			b.over += 8
		case b.data[b.pos] != 0xff:
			v = uint64(b.data[b.pos])
			b.pos++
		case b.pos+1 < len(b.data) && b.data[b.pos+1] == 0:
			v = 0xff
			b.pos += 2
		default:
			b.over += 8
		}
		b.acc = b.acc<<8 | v
		b.n += 8
	}
}

// overrun reports whether more bits were used than there are.
func (b *bits) overrun() bool { return b.over > b.n }

// take reads n ≤ 16 bits.
func (b *bits) take(n int) int32 {
	if b.n < 32 {
		b.fill()
	}
	b.n -= n
	return int32(b.acc>>b.n) & (1<<n - 1)
}

func (b *bits) flag() bool { return b.take(1) == 1 }

// signed reads an n-bit number in T.81's form: a leading zero is a minus.
func (b *bits) signed(n int) int32 {
	if n == 0 {
		return 0
	}
	v := b.take(n)
	if v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

var errCode = errors.New("a damaged JPEG: a code that its tables lack")

// symbol reads one Huffman code.
func (b *bits) symbol(h *huffman) (int, error) {
	if b.n < 32 {
		b.fill()
	}
	if s := h.short[int(b.acc>>(b.n-peek))&(1<<peek-1)]; s != 0 {
		b.n -= int(s >> 8)
		return int(s & 255), nil
	}
	next := int32(b.acc>>(b.n-16)) & 0xffff
	for n := 1; n <= 16; n++ {
		if next <= h.last[n] {
			b.n -= n
			return int(h.values[next>>(16-n)+h.first[n]]), nil
		}
	}
	return 0, errCode
}
