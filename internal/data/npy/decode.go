package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/numeric/float16"
)

// decoder decodes raw, which consists of whole elements. It returns them as a slice of a
// type that the package documentation lists. The slice is valid until the next call.
type decoder func(raw []byte) (any, error)

func (d DType) decoder() decoder {
	if d.text() {
		return func([]byte) (any, error) {
			return nil, errors.New("it holds texts; save it as an array of numbers: float, integer or bool")
		}
	}
	switch string(d.Kind) + fmt.Sprint(d.Size) {
	case "f2":
		return newDecoder(d, float16.Decode)
	case "f4":
		return newDecoder[float32, float32](d, nil)
	case "f8":
		return newDecoder[float64, float64](d, nil)
	case "i1":
		return newDecoder(d, func(v int8) int64 { return int64(v) })
	case "i2":
		return newDecoder(d, func(v int16) int64 { return int64(v) })
	case "i4":
		return newDecoder(d, func(v int32) int64 { return int64(v) })
	case "i8", "u8":
		return newDecoder[int64, int64](d, nil)
	case "u2":
		return newDecoder(d, func(v uint16) int64 { return int64(v) })
	case "u4":
		return newDecoder(d, func(v uint32) int64 { return int64(v) })
	case "b1":
		return newDecoder(d, func(v uint8) uint8 { return min(v, 1) })
	}
	return newDecoder[uint8, uint8](d, nil)
}

// texts returns a decoder of texts. Zeros at the end of a text are padding. Equal texts share
// memory, because arrays of texts usually hold few different ones.
func (d DType) texts() decoder {
	seen := map[string]string{}
	var part []string
	var utf8Text []byte
	var order binary.ByteOrder = binary.LittleEndian
	if d.Big {
		order = binary.BigEndian
	}
	return func(raw []byte) (any, error) {
		part = part[:0]
		for one := range slices.Chunk(raw, d.Size) {
			text, ok := seen[string(one)]
			if !ok {
				key := string(one)
				utf8Text = append(utf8Text[:0], one...)
				if d.Kind == 'U' {
					utf8Text = utf8Text[:0]
					for ; len(one) > 0; one = one[4:] {
						utf8Text = utf8.AppendRune(utf8Text, rune(order.Uint32(one)))
					}
				}
				text = strings.ToValidUTF8(strings.TrimRight(string(utf8Text), "\x00"), "\ufffd")
				seen[key] = text
			}
			part = append(part, text)
		}
		return part, nil
	}
}

// newDecoder returns a decoder for elements of type S. If widen is not nil, the decoder
// converts each element to T.
func newDecoder[S, T any](d DType, widen func(S) T) decoder {
	var order binary.ByteOrder = binary.LittleEndian
	if d.Big {
		order = binary.BigEndian
	}
	var part []S
	var wide []T
	return func(raw []byte) (any, error) {
		n := len(raw) / d.Size
		part, wide = slices.Grow(part[:0], n)[:n], wide[:0]
		if _, err := binary.Decode(raw, order, part); err != nil {
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
