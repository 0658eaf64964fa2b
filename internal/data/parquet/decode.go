package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/attach-uncertainty/attach/internal/numeric/float16"
)

// decode decodes the cells of a dictionary, or of a page that does not use a dictionary.
func (p *pages) decode(reserved *int, b []byte, encoding format.Encoding, h *format.PageHeader) (c cells, err error) {
	n, err := decodedSize(b, encoding, p.column.leaf.Type().Kind())
	if err == nil {
		err = p.reserve(reserved, n, h.CompressedPageSize)
	}
	if err != nil {
		return c, err
	}
	t, d := p.column.leaf.Type(), parquet.LookupEncoding(encoding)
	scale := 1.
	if l := t.LogicalType(); l != nil {
		if decimal, ok := l.Value.(*format.DecimalType); ok {
			scale = math.Pow10(int(decimal.Scale))
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		v, err := d.DecodeBoolean(nil, b)
		return cells{count: 8 * len(v), number: func(i int) float64 { return float64(v[i>>3] >> (i & 7) & 1) }}, err
	case parquet.Int32:
		v, err := d.DecodeInt32(nil, b)
		if unsigned(t) {
			return cells{count: len(v), number: func(i int) float64 { return float64(uint32(v[i])) }}, err
		}
		return cells{count: len(v), number: func(i int) float64 { return float64(v[i]) / scale }}, err
	case parquet.Int64:
		v, err := d.DecodeInt64(nil, b)
		if unsigned(t) {
			return cells{count: len(v), number: func(i int) float64 { return float64(uint64(v[i])) }}, err
		}
		return cells{count: len(v), number: func(i int) float64 { return float64(v[i]) / scale }}, err
	case parquet.Float:
		v, err := d.DecodeFloat(nil, b)
		return cells{count: len(v), number: func(i int) float64 { return float64(v[i]) }}, err
	case parquet.Double:
		v, err := d.DecodeDouble(nil, b)
		return cells{count: len(v), number: func(i int) float64 { return v[i] }}, err
	case parquet.FixedLenByteArray:
		size := t.Length()
		v, err := d.DecodeFixedLenByteArray(nil, b, size)
		c.count, c.bytes = len(v)/size, func(i int) []byte { return v[i*size : (i+1)*size] }
		if size == 2 && scale == 1 {
			c.number = func(i int) float64 { return float64(float16.Decode(binary.LittleEndian.Uint16(v[2*i:]))) }
			return c, err
		}
		c.number = func(i int) float64 { return unscaled(c.bytes(i)) / scale }
		return c, err
	case parquet.ByteArray:
		v, offsets, err := d.DecodeByteArray(nil, b, nil)
		c.count, c.bytes = len(offsets)-1, func(i int) []byte { return v[offsets[i]:offsets[i+1]:offsets[i+1]] }
		c.number = func(i int) float64 { return unscaled(c.bytes(i)) / scale }
		return c, err
	}
	return c, fmt.Errorf("cells of type %v, which are not read", t)
}

// decodedSize returns the memory for the decoded cells of a page, in bytes. The caller
// limits the memory, because the library allocates whatever a page asks for.
func decodedSize(b []byte, encoding format.Encoding, kind parquet.Kind) (int64, error) {
	switch encoding {
	case format.Plain:
		if kind == parquet.ByteArray {
			return 2 * int64(len(b)), nil // an empty text has four bytes in the page, and needs eight in memory
		}
		return int64(len(b)), nil
	case format.ByteStreamSplit:
		return int64(len(b)), nil
	case format.DeltaBinaryPacked:
		n, _, _, _, _, err := deltaHeader(b)
		return 8 * int64(n), err
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		n, size, rest, err := lengths(b)
		if err == nil && encoding == format.DeltaByteArray {
			// The first list has the lengths of prefixes shared with the previous text. The
			// second list has the lengths of suffixes.
			var suffixes int64
			_, suffixes, _, err = lengths(rest)
			size += suffixes
		}
		return 16*int64(n) + size, err
	}
	return 0, fmt.Errorf("the encoding %v, which is not read", encoding)
}

// deltaHeader reads the header of delta-encoded integers. It returns the number of
// integers, the integers per block, the parts per block (miniblocks), the first integer,
// and the bytes after the header.
func deltaHeader(b []byte) (count, block, miniblocks int, first int64, rest []byte, err error) {
	var v [4]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(b); n <= 0 {
			return 0, 0, 0, 0, nil, io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	if v[2] > math.MaxInt32 || v[0] == 0 || v[0] > 1<<16 || v[1] == 0 || v[1] > v[0] {
		return 0, 0, 0, 0, nil, fmt.Errorf("%d numbers in blocks of %d in %d parts", v[2], v[0], v[1])
	}
	return int(v[2]), int(v[0]), int(v[1]), zigzag(v[3]), b, nil
}

func zigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// lengths reads delta-encoded lengths. It returns their number, their sum, and the bytes after
// them.
func lengths(b []byte) (count int, sum int64, rest []byte, err error) {
	count, block, miniblocks, first, b, err := deltaHeader(b)
	if err != nil || count == 0 {
		return 0, 0, b, err
	}
	value := int32(first)
	sum = first
	for left := count - 1; left > 0; {
		minDelta, n := binary.Uvarint(b)
		if n <= 0 || miniblocks > len(b)-n {
			return 0, 0, nil, io.ErrUnexpectedEOF
		}
		widths := b[n : n+miniblocks]
		b = b[n+miniblocks:]
		for _, width := range widths[:min(miniblocks, (left+block/miniblocks-1)/(block/miniblocks))] {
			size := block / miniblocks * int(width) / 8
			if width > 32 || size > len(b) {
				return 0, 0, nil, io.ErrUnexpectedEOF
			}
			for i := range min(left, block/miniblocks) {
				value += int32(zigzag(minDelta)) + int32(unpack(b[:size], i*int(width), int(width)))
				sum += int64(value)
				left--
				if value < 0 {
					return 0, 0, nil, fmt.Errorf("a length of %d", value)
				}
			}
			b = b[size:]
		}
	}
	return count, sum, b, nil
}

// unscaled returns the integer of a decimal, which is stored as big-endian bytes in two's
// complement. The decimal is this integer divided by a power of ten.
func unscaled(bytes []byte) (x float64) {
	for i, b := range bytes {
		if i == 0 {
			x = float64(int8(b))
		} else {
			x = 256*x + float64(b)
		}
	}
	return x
}

func unsigned(t parquet.Type) bool {
	if l := t.LogicalType(); l != nil {
		i, ok := l.Value.(*format.IntType)
		return ok && !i.IsSigned
	}
	c := t.ConvertedType()
	return c != nil && *c >= deprecated.Uint8 && *c <= deprecated.Uint64
}
