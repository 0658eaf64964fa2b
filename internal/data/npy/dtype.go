package npy

import (
	"errors"
	"fmt"
	"strconv"
)

// DType is the type of an array's elements as stored in a file.
type DType struct {
	// Kind is 'f', 'i', 'u', 'b' (bool), 'U' (text) or 'S' (bytes), as in NumPy's type strings.
	Kind byte
	// Size is the number of bytes of one element.
	Size int
	// Big reports whether elements are big-endian.
	Big bool
}

// maxText is the largest size of a text in bytes. NumPy pads all texts of an array to the
// longest.
const maxText = 4 << 10

// text reports whether elements are texts, which only Lazy.Texts reads.
func (d DType) text() bool { return d.Kind == 'U' || d.Kind == 'S' }

// String returns NumPy's name of the type, such as float32.
func (d DType) String() string {
	switch {
	case d.Kind == 'b':
		return "bool"
	case d.text():
		return "text"
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
		if n, err := strconv.Atoi(s[1:]); err == nil && (s[0] == 'U' || s[0] == 'S') && n > 0 {
			d.Kind, d.Size = s[0], n
			if d.Kind == 'U' { // UTF-32
				d.Size = 4 * min(n, maxText)
			}
			if d.Size > maxText {
				return d, fmt.Errorf("it holds texts of up to %d characters; at most %d bytes a text are supported", n, maxText)
			}
			break
		}
		return d, fmt.Errorf("elements of type %.40q are not supported; save the array as float, integer or bool", descr)
	}
	d.Big = descr[0] == '>' && d.Size > 1
	return d, nil
}
