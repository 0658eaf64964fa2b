package npy

import (
	"errors"
	"fmt"
	"strconv"
)

// DType is the type of an array's elements as stored in a file.
type DType struct {
	// Kind is 'f', 'i', 'u' or 'b' (bool), as in NumPy's type strings.
	Kind byte
	// Size is the number of bytes of one element.
	Size int
	// Big reports whether elements are big-endian.
	Big bool
}

// String returns NumPy's name of the type, such as float32.
func (d DType) String() string {
	if d.Kind == 'b' {
		return "bool"
	}
	return map[byte]string{'f': "float", 'i': "int", 'u': "uint"}[d.Kind] + strconv.Itoa(8*d.Size)
}

// Byte reports whether elements are read as []uint8.
func (d DType) Byte() bool { return d.Size == 1 && d.Kind != 'i' }

func parseDType(descr string) (DType, error) {
	s := descr
	var d DType
	switch s[0] {
	case '<', '|', '=', '>':
		s = s[1:]
	}
	switch s {
	case "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1":
		d.Kind, d.Size = s[0], int(s[1]-'0')
	case "?":
		d.Kind, d.Size = 'b', 1
	case "O", "O8":
		return d, errors.New("the array holds Python objects; save it as an array of numbers (not with dtype=object)")
	default:
		return d, fmt.Errorf("elements of type %.40q are not supported; save the array as float, integer or bool", descr)
	}
	d.Big = descr[0] == '>' && d.Size > 1
	return d, nil
}
