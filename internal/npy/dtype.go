package npy

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// DType is the type of an array's elements as stored in a file.
type DType struct {
	// Kind is 'f', 'i', 'u' or 'b' (bool), as in NumPy's type strings.
	Kind byte
	// Size is the number of bytes of one element.
	Size int
	// Big says that elements are big-endian.
	Big bool
}

// String returns NumPy's name of the type, such as float32.
func (d DType) String() string {
	switch d.Kind {
	case 'f':
		return "float" + strconv.Itoa(8*d.Size)
	case 'i':
		return "int" + strconv.Itoa(8*d.Size)
	case 'u':
		return "uint" + strconv.Itoa(8*d.Size)
	}
	return "bool"
}

// Float reports whether elements are floating-point numbers.
func (d DType) Float() bool { return d.Kind == 'f' }

// Byte reports whether elements are read as []uint8.
func (d DType) Byte() bool { return d.Size == 1 && d.Kind != 'i' }

func parseDType(descr string) (DType, error) {
	s := descr
	var d DType
	if s != "" {
		switch s[0] {
		case '>':
			d.Big = true
			s = s[1:]
		case '<', '|', '=':
			s = s[1:]
		}
	}
	switch s {
	case "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1":
		d.Kind, d.Size = s[0], int(s[1]-'0')
	case "?":
		d.Kind, d.Size = 'b', 1
	case "O", "O8":
		return d, fmt.Errorf("the array holds Python objects; save it as an array of numbers (not with dtype=object)")
	default:
		return d, fmt.Errorf("elements of type %.40q are not supported; save the array as float, integer or bool", descr)
	}
	if d.Size == 1 {
		d.Big = false
	}
	return d, nil
}

// descr returns the type string of what is written for data.
func descr(data any) (string, error) {
	switch data.(type) {
	case []float32:
		return "<f4", nil
	case []float64:
		return "<f8", nil
	case []int64:
		return "<i8", nil
	case []uint8:
		return "|u1", nil
	case []bool:
		return "|b1", nil
	}
	return "", fmt.Errorf("elements of type %T cannot be written; want []float32, []float64, []int64, []uint8 or []bool", data)
}

// newData returns an empty slice of the type that d is read as, with room for
// n elements.
func (d DType) newData(n int) any {
	switch {
	case d.Kind == 'f' && d.Size == 8:
		return make([]float64, 0, n)
	case d.Kind == 'f':
		return make([]float32, 0, n)
	case d.Byte():
		return make([]uint8, 0, n)
	}
	return make([]int64, 0, n)
}

// appendRaw decodes raw, a whole number of elements, and appends them to data,
// which newData made.
func (d DType) appendRaw(data any, raw []byte) (any, error) {
	var order binary.ByteOrder = binary.LittleEndian
	if d.Big {
		order = binary.BigEndian
	}
	switch data := data.(type) {
	case []uint8:
		if d.Kind == 'b' {
			for _, b := range raw {
				if b != 0 {
					b = 1
				}
				data = append(data, b)
			}
			return data, nil
		}
		return append(data, raw...), nil
	case []float64:
		for ; len(raw) >= 8; raw = raw[8:] {
			data = append(data, math.Float64frombits(order.Uint64(raw)))
		}
		return data, nil
	case []float32:
		if d.Size == 2 {
			for ; len(raw) >= 2; raw = raw[2:] {
				data = append(data, float16(order.Uint16(raw)))
			}
			return data, nil
		}
		if !d.Big {
			for ; len(raw) >= 4; raw = raw[4:] {
				data = append(data, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
			return data, nil
		}
		for ; len(raw) >= 4; raw = raw[4:] {
			data = append(data, math.Float32frombits(order.Uint32(raw)))
		}
		return data, nil
	}
	return d.appendInts(data.([]int64), raw, order)
}

func (d DType) appendInts(data []int64, raw []byte, order binary.ByteOrder) (any, error) {
	for ; len(raw) >= d.Size; raw = raw[d.Size:] {
		var v int64
		switch d.Size {
		case 1:
			v = int64(int8(raw[0]))
		case 2:
			v = int64(order.Uint16(raw))
			if d.Kind == 'i' {
				v = int64(int16(v))
			}
		case 4:
			v = int64(order.Uint32(raw))
			if d.Kind == 'i' {
				v = int64(int32(v))
			}
		case 8:
			u := order.Uint64(raw)
			if d.Kind == 'u' && u > math.MaxInt64 {
				return nil, fmt.Errorf("the uint64 value %d at element %d does not fit an int64", u, len(data))
			}
			v = int64(u)
		}
		data = append(data, v)
	}
	return data, nil
}

// float16 converts an IEEE 754 half-precision number. Every half is a float32.
func float16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0:
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
