package serve

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/inference"
	"github.com/attach-uncertainty/attach/internal/numeric/float16"
)

// tensor is an input as the client sent it. One of the fields text, raw and contents holds
// its elements.
type tensor struct {
	name, datatype string
	shape          []int
	elements       int // number of elements that shape requires

	text     []byte                         // JSON array, flat or nested
	raw      []byte                         // binary data, little-endian; not nil even if there are no elements
	contents *inference.InferTensorContents // typed contents of a gRPC message
}

// maxAxes limits the number of axes of a shape, and maxElements the number of elements.
const (
	maxAxes     = 32
	maxElements = math.MaxInt32 - 1
)

// elementSize returns the number of bytes of an element. It returns 0 for BYTES, because these
// elements vary in length, and −1 for an unknown datatype.
func elementSize(datatype string) int {
	switch datatype {
	case "BOOL", "INT8", "UINT8":
		return 1
	case "INT16", "UINT16", "FP16":
		return 2
	case "INT32", "UINT32", "FP32":
		return 4
	case "INT64", "UINT64", "FP64":
		return 8
	case "BYTES":
		return 0
	}
	return -1
}

// datatypeOf returns the protocol's name for a NumPy data type.
func datatypeOf(numpy string) string {
	switch numpy {
	case "bool":
		return "BOOL"
	case "float16", "float32", "float64":
		return "FP" + numpy[5:]
	case "int8", "int16", "int32", "int64":
		return "INT" + numpy[3:]
	case "uint8", "uint16", "uint32", "uint64":
		return "UINT" + numpy[4:]
	}
	return "BYTES"
}

// validate checks the datatype and the shape, and computes the number of elements.
func (t *tensor) validate() error {
	if elementSize(t.datatype) < 0 {
		return badRequestf("the input %.100q has the datatype %.100q, which is unknown: use BOOL, INT8 to INT64, UINT8 to UINT64, FP16, FP32, FP64 or BYTES", t.name, t.datatype)
	}
	if len(t.shape) == 0 || len(t.shape) > maxAxes {
		return badRequestf("the input %.100q has %d axes: it needs 1 to %d, the first for rows", t.name, len(t.shape), maxAxes)
	}
	t.elements = 1
	for _, d := range t.shape {
		switch {
		case d < 0:
			return badRequestf("the input %.100q has the shape %v: sizes must not be negative", t.name, t.shape)
		case d > maxElements || d > 0 && t.elements > maxElements/d:
			return badRequestf("the input %.100q has the shape %v, which is too large", t.name, t.shape)
		}
		t.elements *= d
	}
	return nil
}

// maxAvailable returns an upper bound of the number of elements in the data. Memory is
// allocated for this number, so that a large shape with little data needs little memory.
func (t *tensor) maxAvailable() int {
	n := len(t.text) / 2
	if t.contents != nil {
		n = contentsLen(t.contents)
	} else if t.raw != nil {
		n = len(t.raw)
	}
	return min(n, t.elements)
}

// countError returns the error for data with n elements if the shape requires a different
// number of elements.
func (t *tensor) countError(n int) error {
	return badRequestf("the input %.100q has %d elements, but its shape %v needs %d", t.name, n, t.shape, t.elements)
}

// floats decodes the elements as float32 and appends them to dst.
func (t *tensor) floats(dst []float32) ([]float32, error) {
	begin := len(dst)
	var err error
	switch {
	case t.contents != nil:
		dst, err = t.decodeContents(dst)
	case t.raw != nil:
		if want := t.elements * elementSize(t.datatype); len(t.raw) != want {
			return dst, badRequestf("the input %.100q has %d bytes, but its shape %v of %s needs %d", t.name, len(t.raw), t.shape, t.datatype, want)
		}
		dst, err = t.decodeBinary(dst)
	default:
		dst, err = t.decodeJSON(dst)
	}
	if err == nil && len(dst)-begin != t.elements {
		return dst, t.countError(len(dst) - begin)
	}
	return dst, err
}

// checkInteger returns an error if element i is not a valid value of an integer datatype, or if
// float32 cannot represent it exactly.
func (t *tensor) checkInteger(i int, v float64, lim limits) error {
	switch {
	case lim.integers && (v < lim.lo || v > lim.hi || v != math.Trunc(v)):
		return t.dataError(fmt.Errorf("%.15g is not a value of %s", v, t.datatype))
	case lim.integers && math.Abs(v) > rows.MaxExact:
		return badRequestf("element %d of the input %.100q is outside −2²⁴ to 2²⁴, the integers that float32 holds exactly", i, t.name)
	}
	return nil
}

// decodeBinary decodes t.raw and appends the numbers to dst. The caller must have checked the
// length of t.raw.
func (t *tensor) decodeBinary(dst []float32) ([]float32, error) {
	b := t.raw
	dst = slices.Grow(dst, t.elements)
	switch t.datatype {
	case "FP32":
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case "FP64":
		for ; len(b) >= 8; b = b[8:] {
			dst = append(dst, float32(math.Float64frombits(binary.LittleEndian.Uint64(b))))
		}
	case "FP16":
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, float16.Decode(binary.LittleEndian.Uint16(b)))
		}
	case "UINT8":
		for _, v := range b {
			dst = append(dst, float32(v))
		}
	default:
		n, lim := elementSize(t.datatype), limitsOf(t.datatype)
		for i := range t.elements {
			v := decodeInteger(t.datatype, b[i*n:])
			if err := t.checkInteger(i, v, lim); err != nil {
				return dst, err
			}
			dst = append(dst, float32(v))
		}
	}
	return dst, nil
}

// decodeInteger decodes the first element of b, which has an integer datatype or is a BOOL.
func decodeInteger(datatype string, b []byte) float64 {
	switch datatype {
	case "INT8":
		return float64(int8(b[0]))
	case "INT16":
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case "UINT16":
		return float64(binary.LittleEndian.Uint16(b))
	case "INT32":
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case "UINT32":
		return float64(binary.LittleEndian.Uint32(b))
	case "INT64":
		return float64(int64(binary.LittleEndian.Uint64(b)))
	case "UINT64":
		return float64(binary.LittleEndian.Uint64(b))
	}
	return float64(b[0])
}

// decodeJSON decodes t.text, which is a JSON array, and appends the numbers to dst.
func (t *tensor) decodeJSON(dst []float32) ([]float32, error) {
	s := scanner{text: t.text}
	begin := len(dst)
	lim := limitsOf(t.datatype)
	err := s.eachElement(0, func() error {
		if len(dst)-begin == t.elements {
			return t.countError(t.elements + 1) // there may be even more elements
		}
		if t.datatype == "BOOL" && s.peek() != '0' && s.peek() != '1' {
			v, err := s.bool()
			if v {
				dst = append(dst, 1)
			} else {
				dst = append(dst, 0)
			}
			return err
		}
		if !lim.integers && s.peek() == 'n' && s.literal("null") {
			// JSON has no NaN, so null represents a missing value.
			dst = append(dst, float32(math.NaN()))
			return nil
		}
		text, _, err := s.number()
		if err != nil {
			return err
		}
		if lim.integers {
			v, _ := strconv.ParseFloat(text, 64) // v is infinite if the number is too large
			dst = append(dst, float32(v))
			return t.checkInteger(len(dst)-begin-1, v, lim)
		}
		v, err := strconv.ParseFloat(text, 32)
		if err != nil {
			return fmt.Errorf("%.40s is too large for float32, the type of all inputs", text)
		}
		dst = append(dst, float32(v))
		return nil
	})
	if err != nil {
		return dst, t.dataError(err)
	}
	return dst, nil
}

// dataError adds the name of the input to an error about its data.
func (t *tensor) dataError(err error) error {
	if _, isStatus := err.(*statusError); isStatus {
		return err
	}
	return badRequestf("the data of the input %.100q is invalid: %v", t.name, err)
}

// eachElement reads nested arrays and calls visit for each element that is not an array.
// The function visit must read the element.
func (s *scanner) eachElement(depth int, visit func() error) error {
	if depth > maxAxes {
		return s.syntaxError("an element")
	}
	return s.array(func() error {
		if s.peek() == '[' {
			return s.eachElement(depth+1, visit)
		}
		return visit()
	})
}

// limits describes the range of an integer datatype. The zero value means a floating-point
// datatype.
type limits struct {
	lo, hi   float64
	integers bool
}

func limitsOf(datatype string) limits {
	switch n := 8 * elementSize(datatype); datatype {
	case "FP16", "FP32", "FP64":
		return limits{}
	case "BOOL":
		return limits{0, 1, true}
	case "INT8", "INT16", "INT32", "INT64":
		return limits{-math.Ldexp(1, n-1), math.Ldexp(1, n-1) - 1, true}
	default:
		return limits{0, math.Ldexp(1, n) - 1, true}
	}
}

// decodeContents decodes t.contents and appends the numbers to dst.
func (t *tensor) decodeContents(dst []float32) ([]float32, error) {
	c := t.contents
	lim := limitsOf(t.datatype)
	add := func(n int, value func(i int) float64) error {
		if n != t.elements {
			return t.countError(n)
		}
		for i := range n {
			v := value(i)
			if err := t.checkInteger(i, v, lim); err != nil {
				return err
			}
			dst = append(dst, float32(v))
		}
		return nil
	}
	dst = slices.Grow(dst, t.maxAvailable())
	var err error
	switch t.datatype {
	case "FP32":
		dst = append(dst, c.GetFp32Contents()...)
	case "FP64":
		err = add(len(c.GetFp64Contents()), func(i int) float64 { return c.Fp64Contents[i] })
	case "BOOL":
		err = add(len(c.GetBoolContents()), func(i int) float64 {
			if c.BoolContents[i] {
				return 1
			}
			return 0
		})
	case "INT8", "INT16", "INT32":
		err = add(len(c.GetIntContents()), func(i int) float64 { return float64(c.IntContents[i]) })
	case "INT64":
		err = add(len(c.GetInt64Contents()), func(i int) float64 { return float64(c.Int64Contents[i]) })
	case "UINT8", "UINT16", "UINT32":
		err = add(len(c.GetUintContents()), func(i int) float64 { return float64(c.UintContents[i]) })
	case "UINT64":
		err = add(len(c.GetUint64Contents()), func(i int) float64 { return float64(c.Uint64Contents[i]) })
	default:
		err = badRequestf("the input %.100q of %s has typed contents, which do not support this datatype: use raw_input_contents", t.name, t.datatype)
	}
	return dst, err
}

// contentsLen returns the total number of elements of all types.
func contentsLen(c *inference.InferTensorContents) int {
	return len(c.GetBoolContents()) + len(c.GetIntContents()) + len(c.GetInt64Contents()) + len(c.GetUintContents()) +
		len(c.GetUint64Contents()) + len(c.GetFp32Contents()) + len(c.GetFp64Contents()) + len(c.GetBytesContents())
}

// eachBytes calls visit with each element of a BYTES tensor. Elements share the memory of
// the request if possible. In JSON, elements are strings. If encoded is set, these strings
// are decoded from base64.
func (t *tensor) eachBytes(encoded bool, visit func(element []byte) error) error {
	n := 0
	add := func(element []byte) error {
		if n++; n > t.elements {
			return t.countError(n) // there may be even more elements
		}
		return visit(element)
	}
	var err error
	switch {
	case t.contents != nil:
		for _, element := range t.contents.GetBytesContents() {
			if err = add(element); err != nil {
				break
			}
		}
	case t.raw != nil:
		for b := t.raw; len(b) > 0 && err == nil; {
			if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
				return badRequestf("element %d of the input %.100q is longer than the remaining bytes", n, t.name)
			}
			end := 4 + int(binary.LittleEndian.Uint32(b))
			err = add(b[4:end:end])
			b = b[end:]
		}
	default:
		s := scanner{text: t.text}
		err = s.eachElement(0, func() error {
			text, err := s.string()
			if err != nil {
				return err
			}
			element := []byte(text)
			if encoded {
				if element, err = base64.StdEncoding.DecodeString(text); err != nil {
					return fmt.Errorf("element %d is not base64, the form of images in JSON", n)
				}
			}
			return add(element)
		})
	}
	if err != nil {
		return t.dataError(err)
	}
	if n != t.elements {
		return t.countError(n)
	}
	return nil
}
