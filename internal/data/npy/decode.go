package npy

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/sbinet/npyio/npy"

	"github.com/attach-uncertainty/attach/internal/numeric/float16"
)

// decoder returns the elements that raw holds, a whole number of them, as a
// slice of the type that they are read as. The slice lives until the next call.
type decoder func(raw []byte) (any, error)

func (d DType) decoder() decoder {
	switch string(d.Kind) + fmt.Sprint(d.Size) {
	case "f2":
		return through(d, "u2", float16.Decode)
	case "f4":
		return through[float32, float32](d, "f4", nil)
	case "f8":
		return through[float64, float64](d, "f8", nil)
	case "i1":
		return through(d, "i1", func(v int8) int64 { return int64(v) })
	case "i2":
		return through(d, "i2", func(v int16) int64 { return int64(v) })
	case "i4":
		return through(d, "i4", func(v int32) int64 { return int64(v) })
	case "i8", "u8":
		return through[int64, int64](d, "i8", nil)
	case "u2":
		return through(d, "u2", func(v uint16) int64 { return int64(v) })
	case "u4":
		return through(d, "u4", func(v uint32) int64 { return int64(v) })
	case "b1":
		return through(d, "u1", func(v uint8) uint8 { return min(v, 1) })
	}
	return through[uint8, uint8](d, "u1", nil)
}

// through has npyio decode elements as S, and widens them to T where the two
// are not the same.
func through[S, T any](d DType, descr string, widen func(S) T) decoder {
	order := "<"
	if d.Big {
		order = ">"
	}
	var part []S
	var wide []T
	return func(raw []byte) (any, error) {
		n := len(raw) / d.Size
		part, wide = slices.Grow(part[:0], n)[:n], wide[:0]
		header := formatHeader(order+descr, []int{n})
		if err := npy.Read(io.MultiReader(bytes.NewReader(header), bytes.NewReader(raw)), &part); err != nil {
			return nil, err
		}
		if widen == nil {
			return part, nil
		}
		for _, v := range part {
			wide = append(wide, widen(v))
		}
		return wide, nil
	}
}
