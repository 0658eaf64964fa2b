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

// tensor is an input as it came, with its elements in one of three forms.
type tensor struct {
	name, datatype string
	shape          []int
	elements       int // the product of shape

	text     []byte                         // a JSON array, nested or not
	raw      []byte                         // binary, little-endian; not nil where there is no element
	contents *inference.InferTensorContents // of gRPC
}

// mostAxes and mostElements bound shapes.
const (
	mostAxes     = 32
	mostElements = math.MaxInt32 - 1
)

// size is how many bytes an element of a datatype takes, 0 where that differs and
// −1 for what is no datatype.
func size(datatype string) int {
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

// datatypes are what the protocol calls the types that NumPy calls otherwise.
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

// measure counts the elements that the shape asks for.
func (t *tensor) measure() error {
	if size(t.datatype) < 0 {
		return badRequest("the input %.100q has the datatype %.100q, which is none of BOOL, INT8 to INT64, UINT8 to UINT64, FP16, FP32, FP64 and BYTES", t.name, t.datatype)
	}
	if len(t.shape) == 0 || len(t.shape) > mostAxes {
		return badRequest("the input %.100q has %d axes; it needs one for rows, and at most %d", t.name, len(t.shape), mostAxes)
	}
	t.elements = 1
	for _, d := range t.shape {
		switch {
		case d < 0:
			return badRequest("the input %.100q has the shape %v: an axis of a request is not negative", t.name, t.shape)
		case d > mostElements || d > 0 && t.elements > mostElements/d:
			return badRequest("the input %.100q has the shape %v, which is too large", t.name, t.shape)
		}
		t.elements *= d
	}
	return nil
}

// brings is how many elements the data have at most, whatever the shape asks for.
func (t *tensor) brings() int {
	n := len(t.text) / 2
	if t.contents != nil {
		n = contentsOf(t.contents)
	} else if t.raw != nil {
		n = len(t.raw)
	}
	return min(n, t.elements)
}

func (t *tensor) miscount(n int) error {
	return badRequest("the input %.100q has %d elements, its shape %v asks for %d", t.name, n, t.shape, t.elements)
}

// floats appends the elements as float32 numbers.
func (t *tensor) floats(dst []float32) ([]float32, error) {
	begin := len(dst)
	var err error
	switch {
	case t.contents != nil:
		dst, err = t.typed(dst)
	case t.raw != nil:
		if want := t.elements * size(t.datatype); len(t.raw) != want {
			return dst, badRequest("the input %.100q has %d bytes, its shape %v of %s takes %d", t.name, len(t.raw), t.shape, t.datatype, want)
		}
		dst, err = t.binary(dst)
	default:
		dst, err = t.parse(dst)
	}
	if err == nil && len(dst)-begin != t.elements {
		return dst, t.miscount(len(dst) - begin)
	}
	return dst, err
}

// check refuses element i where the datatype does not have it, or where it is an
// integer that does not travel.
func (t *tensor) check(i int, v float64, of limits) error {
	switch {
	case of.integers && (v < of.lo || v > of.hi || v != math.Trunc(v)):
		return t.invalid(fmt.Errorf("%.15g is no %s", v, t.datatype))
	case of.integers && math.Abs(v) > rows.MaxExact:
		return badRequest("element %d of the input %.100q is outside −2²⁴ to 2²⁴, in which integers are taken", i, t.name)
	}
	return nil
}

// binary decodes raw, whose length is right.
func (t *tensor) binary(dst []float32) ([]float32, error) {
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
		n, of := size(t.datatype), limitsOf(t.datatype)
		for i := range t.elements {
			v := integer(t.datatype, b[i*n:])
			if err := t.check(i, v, of); err != nil {
				return dst, err
			}
			dst = append(dst, float32(v))
		}
	}
	return dst, nil
}

// integer decodes the first element.
func integer(datatype string, b []byte) float64 {
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

// parse reads a JSON array.
func (t *tensor) parse(dst []float32) ([]float32, error) {
	s := scanner{text: t.text}
	begin := len(dst)
	of := limitsOf(t.datatype)
	err := s.leaves(0, func() error {
		if len(dst)-begin == t.elements {
			return t.miscount(t.elements + 1) // or more
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
		if !of.integers && s.peek() == 'n' && s.literal("null") {
			// JSON has no NaN, which is an empty cell of a table.
			dst = append(dst, float32(math.NaN()))
			return nil
		}
		text, _, err := s.number()
		if err != nil {
			return err
		}
		if of.integers {
			v, _ := strconv.ParseFloat(text, 64) // an infinity where it is too large
			dst = append(dst, float32(v))
			return t.check(len(dst)-begin-1, v, of)
		}
		v, err := strconv.ParseFloat(text, 32)
		if err != nil {
			return fmt.Errorf("%.40s is too large for a float32 number, as which rows travel", text)
		}
		dst = append(dst, float32(v))
		return nil
	})
	if err != nil {
		return dst, t.invalid(err)
	}
	return dst, nil
}

// invalid is an error of what the tensor holds.
func (t *tensor) invalid(err error) error {
	if _, known := err.(*refusal); known {
		return err
	}
	return badRequest("the data of the input %.100q: %v", t.name, err)
}

// leaves calls each for what is no array in nested arrays.
func (s *scanner) leaves(depth int, each func() error) error {
	if depth > mostAxes {
		return s.fail("an element")
	}
	return s.array(func() error {
		if s.peek() == '[' {
			return s.leaves(depth+1, each)
		}
		return each()
	})
}

// limits are the least and the largest number of a datatype, where it has integers
// alone.
type limits struct {
	lo, hi   float64
	integers bool
}

func limitsOf(datatype string) limits {
	switch n := 8 * size(datatype); datatype {
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

// typed reads the contents of a gRPC message.
func (t *tensor) typed(dst []float32) ([]float32, error) {
	c := t.contents
	of := limitsOf(t.datatype)
	add := func(n int, at func(i int) float64) error {
		if n != t.elements {
			return t.miscount(n)
		}
		for i := range n {
			v := at(i)
			if err := t.check(i, v, of); err != nil {
				return err
			}
			dst = append(dst, float32(v))
		}
		return nil
	}
	dst = slices.Grow(dst, t.brings())
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
		err = badRequest("the input %.100q of %s has typed contents, which have no field for it; give raw ones", t.name, t.datatype)
	}
	return dst, err
}

// contentsOf is how many elements there are, of whatever type.
func contentsOf(c *inference.InferTensorContents) int {
	return len(c.GetBoolContents()) + len(c.GetIntContents()) + len(c.GetInt64Contents()) + len(c.GetUintContents()) +
		len(c.GetUint64Contents()) + len(c.GetFp32Contents()) + len(c.GetFp64Contents()) + len(c.GetBytesContents())
}

// bytes calls each with every element of a tensor of BYTES, which shares the memory
// of the request where it can. In JSON elements are strings, of base64 where encoded
// says so.
func (t *tensor) bytes(encoded bool, each func(element []byte) error) error {
	n := 0
	add := func(element []byte) error {
		if n++; n > t.elements {
			return t.miscount(n) // or more
		}
		return each(element)
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
				return badRequest("element %d of the input %.100q is longer than the bytes that are left", n, t.name)
			}
			end := 4 + int(binary.LittleEndian.Uint32(b))
			err = add(b[4:end:end])
			b = b[end:]
		}
	default:
		s := scanner{text: t.text}
		err = s.leaves(0, func() error {
			text, err := s.string()
			if err != nil {
				return err
			}
			element := []byte(text)
			if encoded {
				if element, err = base64.StdEncoding.DecodeString(text); err != nil {
					return fmt.Errorf("element %d is no base64, as which JSON brings images", n)
				}
			}
			return add(element)
		})
	}
	if err != nil {
		return t.invalid(err)
	}
	if n != t.elements {
		return t.miscount(n)
	}
	return nil
}
