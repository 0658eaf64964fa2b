package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Float32s returns the elements of a numeric tensor, row-major, with its
// shape (empty for a scalar). Doubles and integers are rounded to float32.
// External data is read from files in dir.
func Float32s(t *pb.TensorProto, dir string) ([]float32, []int64, error) {
	return decode(t, dir, func(v float64) float32 { return float32(v) }, func(v int64) float32 { return float32(v) })
}

// Float64s is Float32s in double precision.
func Float64s(t *pb.TensorProto, dir string) ([]float64, []int64, error) {
	return decode(t, dir, func(v float64) float64 { return v }, func(v int64) float64 { return float64(v) })
}

// Int64s returns the elements of an integer or bool tensor, row-major, with
// its shape. Unsigned 64-bit values wrap.
func Int64s(t *pb.TensorProto, dir string) ([]int64, []int64, error) {
	if isFloat(t.GetDataType()) {
		return nil, nil, fmt.Errorf("tensor %q holds %s, not integers", t.GetName(), DTypeName(t.GetDataType()))
	}
	return decode(t, dir, func(v float64) int64 { return int64(v) }, func(v int64) int64 { return v })
}

// Elements returns the number of elements that a tensor's shape stands for.
func Elements(t *pb.TensorProto) (int64, error) {
	n := int64(1)
	for _, d := range t.GetDims() {
		if d < 0 || (d > 0 && n > math.MaxInt64/d) {
			return 0, fmt.Errorf("tensor %q has the impossible shape %v", t.GetName(), t.GetDims())
		}
		n *= d
	}
	return n, nil
}

// DTypeName returns an element type's name as NumPy spells it.
func DTypeName(dataType int32) string {
	switch pb.TensorProto_DataType(dataType) {
	case pb.TensorProto_FLOAT:
		return "float32"
	case pb.TensorProto_DOUBLE:
		return "float64"
	case pb.TensorProto_FLOAT16:
		return "float16"
	case pb.TensorProto_BFLOAT16:
		return "bfloat16"
	case pb.TensorProto_UINT8:
		return "uint8"
	case pb.TensorProto_INT8:
		return "int8"
	case pb.TensorProto_UINT16:
		return "uint16"
	case pb.TensorProto_INT16:
		return "int16"
	case pb.TensorProto_UINT32:
		return "uint32"
	case pb.TensorProto_INT32:
		return "int32"
	case pb.TensorProto_UINT64:
		return "uint64"
	case pb.TensorProto_INT64:
		return "int64"
	case pb.TensorProto_BOOL:
		return "bool"
	case pb.TensorProto_STRING:
		return "string"
	}
	if name, ok := pb.TensorProto_DataType_name[dataType]; ok {
		return name
	}
	return fmt.Sprintf("type %d", dataType)
}

func isFloat(dataType int32) bool {
	switch pb.TensorProto_DataType(dataType) {
	case pb.TensorProto_FLOAT, pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16:
		return true
	}
	return false
}

// elementBytes is the size of an element in raw data, or 0 for types that are
// not decoded.
func elementBytes(dataType int32) int64 {
	switch pb.TensorProto_DataType(dataType) {
	case pb.TensorProto_UINT8, pb.TensorProto_INT8, pb.TensorProto_BOOL:
		return 1
	case pb.TensorProto_UINT16, pb.TensorProto_INT16, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16:
		return 2
	case pb.TensorProto_FLOAT, pb.TensorProto_INT32, pb.TensorProto_UINT32:
		return 4
	case pb.TensorProto_DOUBLE, pb.TensorProto_INT64, pb.TensorProto_UINT64:
		return 8
	}
	return 0
}

// maxRead bounds the bytes of a tensor that is read: a file of external data may
// be of any length, and empty but for that.
const maxRead = 4 << 30

func decode[T any](t *pb.TensorProto, dir string, fromFloat func(float64) T, fromInt func(int64) T) ([]T, []int64, error) {
	n, err := Elements(t)
	if err != nil {
		return nil, nil, err
	}
	size := elementBytes(t.GetDataType())
	if size == 0 {
		return nil, nil, fmt.Errorf("tensor %q holds %s, which is not read", t.GetName(), DTypeName(t.GetDataType()))
	}
	if n > maxRead/size {
		return nil, nil, fmt.Errorf("tensor %q of shape %v is more than the %d GiB that are read", t.GetName(), t.GetDims(), maxRead>>30)
	}
	raw := t.GetRawData()
	if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
		if raw, err = readExternal(t, dir, n, size); err != nil {
			return nil, nil, err
		}
	}
	if raw == nil && n > 0 {
		out, err := decodeTyped(t, n, fromFloat, fromInt)
		return out, t.GetDims(), err
	}
	if int64(len(raw)) != n*size {
		return nil, nil, fmt.Errorf("tensor %q of shape %v holds %d bytes where %s needs %d a value", t.GetName(), t.GetDims(), len(raw), DTypeName(t.GetDataType()), size)
	}
	out := make([]T, n)
	le := binary.LittleEndian
	switch pb.TensorProto_DataType(t.GetDataType()) {
	case pb.TensorProto_FLOAT:
		for i := range out {
			out[i] = fromFloat(float64(math.Float32frombits(le.Uint32(raw[4*i:]))))
		}
	case pb.TensorProto_DOUBLE:
		for i := range out {
			out[i] = fromFloat(math.Float64frombits(le.Uint64(raw[8*i:])))
		}
	case pb.TensorProto_FLOAT16:
		for i := range out {
			out[i] = fromFloat(float64(Float16(le.Uint16(raw[2*i:]))))
		}
	case pb.TensorProto_BFLOAT16:
		for i := range out {
			out[i] = fromFloat(float64(math.Float32frombits(uint32(le.Uint16(raw[2*i:])) << 16)))
		}
	case pb.TensorProto_UINT8, pb.TensorProto_BOOL:
		for i := range out {
			out[i] = fromInt(int64(raw[i]))
		}
	case pb.TensorProto_INT8:
		for i := range out {
			out[i] = fromInt(int64(int8(raw[i])))
		}
	case pb.TensorProto_UINT16:
		for i := range out {
			out[i] = fromInt(int64(le.Uint16(raw[2*i:])))
		}
	case pb.TensorProto_INT16:
		for i := range out {
			out[i] = fromInt(int64(int16(le.Uint16(raw[2*i:]))))
		}
	case pb.TensorProto_UINT32:
		for i := range out {
			out[i] = fromInt(int64(le.Uint32(raw[4*i:])))
		}
	case pb.TensorProto_INT32:
		for i := range out {
			out[i] = fromInt(int64(int32(le.Uint32(raw[4*i:]))))
		}
	case pb.TensorProto_UINT64, pb.TensorProto_INT64:
		for i := range out {
			out[i] = fromInt(int64(le.Uint64(raw[8*i:])))
		}
	}
	return out, t.GetDims(), nil
}

// decodeTyped reads the typed fields, used where there is no raw data. Types
// of less than 32 bits, floats of 16 bits included, travel as bits in
// int32_data.
func decodeTyped[T any](t *pb.TensorProto, n int64, fromFloat func(float64) T, fromInt func(int64) T) ([]T, error) {
	var have int
	var at func(i int) T
	switch pb.TensorProto_DataType(t.GetDataType()) {
	case pb.TensorProto_FLOAT:
		have, at = len(t.GetFloatData()), func(i int) T { return fromFloat(float64(t.FloatData[i])) }
	case pb.TensorProto_DOUBLE:
		have, at = len(t.GetDoubleData()), func(i int) T { return fromFloat(t.DoubleData[i]) }
	case pb.TensorProto_FLOAT16:
		have, at = len(t.GetInt32Data()), func(i int) T { return fromFloat(float64(Float16(uint16(t.Int32Data[i])))) }
	case pb.TensorProto_BFLOAT16:
		have, at = len(t.GetInt32Data()), func(i int) T {
			return fromFloat(float64(math.Float32frombits(uint32(uint16(t.Int32Data[i])) << 16)))
		}
	case pb.TensorProto_INT64:
		have, at = len(t.GetInt64Data()), func(i int) T { return fromInt(t.Int64Data[i]) }
	case pb.TensorProto_UINT64, pb.TensorProto_UINT32:
		have, at = len(t.GetUint64Data()), func(i int) T { return fromInt(int64(t.Uint64Data[i])) }
	default:
		have, at = len(t.GetInt32Data()), func(i int) T { return fromInt(int64(t.Int32Data[i])) }
	}
	if int64(have) != n {
		return nil, fmt.Errorf("tensor %q of shape %v holds %d values", t.GetName(), t.GetDims(), have)
	}
	out := make([]T, n)
	for i := range out {
		out[i] = at(i)
	}
	return out, nil
}

// Float16 returns the value of an IEEE 754 half-precision number.
func Float16(bits uint16) float32 {
	sign := uint32(bits&0x8000) << 16
	exp := uint32(bits>>10) & 0x1f
	frac := uint32(bits & 0x3ff)
	switch exp {
	case 0:
		// Subnormal: frac·2⁻²⁴, exact in float32.
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Places lists the indices of all elements of a tensor of that shape, in
// row-major order; a scalar has one, which is empty.
func Places(shape []int64) [][]int64 {
	places := [][]int64{nil}
	for _, n := range shape {
		var next [][]int64
		for _, p := range places {
			for i := range n {
				next = append(next, append(slices.Clone(p), i))
			}
		}
		places = next
	}
	return places
}
