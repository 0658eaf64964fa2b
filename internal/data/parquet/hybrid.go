package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
)

// hybridReader reads small integers that are encoded as runs and as packed bits. It does not
// expand a run, because a few bytes can encode a run of billions of integers.
type hybridReader struct {
	data  []byte
	width int // number of bits of an integer
	left  int // remaining integers of the current run
	value uint32
	// packed holds the integers of a packed run, and is nil for a run of equal integers.
	// bit is the position of the next integer in packed.
	packed []byte
	bit    int
}

func newHybridReader(data []byte, width int) (*hybridReader, error) {
	if width > 32 {
		return nil, fmt.Errorf("numbers of %d bits", width)
	}
	return &hybridReader{data: data, width: width}, nil
}

// nextRun moves to the next run, if the current one is used up.
func (h *hybridReader) nextRun() error {
	for h.left == 0 {
		header, n := binary.Uvarint(h.data)
		if n <= 0 || header>>1 > 1<<31 {
			return io.ErrUnexpectedEOF
		}
		h.data = h.data[n:]
		size := (h.width + 7) / 8
		if h.left = int(header >> 1); header&1 == 1 {
			size = h.left * h.width
			h.left *= 8
		}
		if size > len(h.data) {
			return io.ErrUnexpectedEOF
		}
		run := h.data[:size]
		h.data = h.data[size:]
		h.packed, h.bit = nil, 0
		if header&1 == 1 {
			h.packed = run
			continue
		}
		h.value = 0
		for i, b := range run {
			h.value |= uint32(b) << (8 * i)
		}
	}
	return nil
}

func (h *hybridReader) next() (uint32, error) {
	if h.left == 0 {
		if err := h.nextRun(); err != nil {
			return 0, err
		}
	}
	h.left--
	if h.packed == nil {
		return h.value, nil
	}
	v := unpack(h.packed, h.bit, h.width)
	h.bit += h.width
	return v, nil
}

// zeros returns how many of the next n integers are zero, without consuming them.
func (h hybridReader) zeros(n int) (zeros int, err error) {
	for n > 0 {
		if h.left == 0 {
			if err := h.nextRun(); err != nil {
				return 0, err
			}
		}
		if h.packed != nil {
			v, err := h.next()
			if err != nil {
				return 0, err
			}
			if n--; v == 0 {
				zeros++
			}
			continue
		}
		run := min(h.left, n)
		if h.left, n = h.left-run, n-run; h.value == 0 {
			zeros += run
		}
	}
	return zeros, nil
}

// unpack returns the integer of width bits, at most 32, that begins at the given bit of b.
func unpack(b []byte, bit, width int) uint32 {
	if rest := b[bit>>3:]; len(rest) >= 8 {
		return uint32(binary.LittleEndian.Uint64(rest) >> (bit & 7) & (1<<width - 1))
	}
	var word [8]byte
	copy(word[:], b[bit>>3:])
	return uint32(binary.LittleEndian.Uint64(word[:]) >> (bit & 7) & (1<<width - 1))
}
