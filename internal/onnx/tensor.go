package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/float16"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Float32s returns the elements of a numeric tensor in row-major order, and its shape. The
// shape of a scalar is empty. Doubles and integers are rounded to float32. dir is the
// folder of the tensor's external data, if it has any.
func Float32s(t *pb.TensorProto, dir string) ([]float32, []int64, error) {
	return decode[float32](t, dir)
}

// Int64s returns the elements of an integer or bool tensor in row-major order, and its
// shape. Unsigned 64-bit values above 2⁶³ − 1 wrap to negative numbers.
func Int64s(t *pb.TensorProto, dir string) ([]int64, []int64, error) {
	if IsFloat(pb.TensorProto_DataType(t.GetDataType())) {
		return nil, nil, fmt.Errorf("tensor %q holds %s, not integers", t.GetName(), DTypeName(t.GetDataType()))
	}
	return decode[int64](t, dir)
}

// Elements returns the number of elements that a tensor's shape implies.
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

// elementTypes lists the supported element types with their names in NumPy. bytes is the
// size of an element in raw data, or 0 if elements cannot be decoded. float marks
// floating-point types.
var elementTypes = map[pb.TensorProto_DataType]struct {
	name  string
	bytes int64
	float bool
}{
	pb.TensorProto_FLOAT: {"float32", 4, true}, pb.TensorProto_DOUBLE: {"float64", 8, true},
	pb.TensorProto_FLOAT16: {"float16", 2, true}, pb.TensorProto_BFLOAT16: {"bfloat16", 2, true},
	pb.TensorProto_INT8: {"int8", 1, false}, pb.TensorProto_UINT8: {"uint8", 1, false},
	pb.TensorProto_INT16: {"int16", 2, false}, pb.TensorProto_UINT16: {"uint16", 2, false},
	pb.TensorProto_INT32: {"int32", 4, false}, pb.TensorProto_UINT32: {"uint32", 4, false},
	pb.TensorProto_INT64: {"int64", 8, false}, pb.TensorProto_UINT64: {"uint64", 8, false},
	pb.TensorProto_BOOL: {"bool", 1, false}, pb.TensorProto_STRING: {name: "string"},
}

// IsFloat reports whether an element type is a floating-point type.
func IsFloat(t pb.TensorProto_DataType) bool { return elementTypes[t].float }

// DTypeName returns the name of an element type in the style of NumPy, such as "bfloat16".
// For a type that is not supported, it returns the name of ONNX.
func DTypeName(dataType int32) string {
	if e, ok := elementTypes[pb.TensorProto_DataType(dataType)]; ok {
		return e.name
	}
	if name, ok := pb.TensorProto_DataType_name[dataType]; ok {
		return name
	}
	return fmt.Sprintf("type %d", dataType)
}

// maxTensorBytes is the largest number of bytes that are read for a tensor. Without a
// limit, a sparse external file of any length could exhaust the memory.
const maxTensorBytes = 4 << 30

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func decode[T float32 | float64 | int64](t *pb.TensorProto, dir string) ([]T, []int64, error) {
	n, err := Elements(t)
	if err != nil {
		return nil, nil, err
	}
	size := elementTypes[pb.TensorProto_DataType(t.GetDataType())].bytes
	if size == 0 {
		return nil, nil, fmt.Errorf("tensor %q holds %s, which is not read", t.GetName(), DTypeName(t.GetDataType()))
	}
	if n > maxTensorBytes/size {
		return nil, nil, fmt.Errorf("tensor %q of shape %v is more than the %d GiB that are read", t.GetName(), t.GetDims(), maxTensorBytes>>30)
	}
	raw := t.GetRawData()
	if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
		if raw, err = readExternal(t, dir, n, size); err != nil {
			return nil, nil, err
		}
	}
	if raw != nil && int64(len(raw)) != n*size {
		return nil, nil, fmt.Errorf("tensor %q of shape %v holds %d bytes where %s needs %d a value", t.GetName(), t.GetDims(), len(raw), DTypeName(t.GetDataType()), size)
	}
	// Types with less than 32 bits, including 16-bit floats, are stored as bits in
	// int32_data.
	var out []T
	switch pb.TensorProto_DataType(t.GetDataType()) {
	case pb.TensorProto_FLOAT:
		out = decodeElements(n, raw, t.FloatData, convertNumber[T, float32])
	case pb.TensorProto_DOUBLE:
		out = decodeElements(n, raw, t.DoubleData, convertNumber[T, float64])
	case pb.TensorProto_FLOAT16:
		out = decodeElements(n, raw, t.Int32Data, func(v uint16) T { return T(float16.Decode(v)) })
	case pb.TensorProto_BFLOAT16:
		out = decodeElements(n, raw, t.Int32Data, func(v uint16) T { return T(math.Float32frombits(uint32(v) << 16)) })
	case pb.TensorProto_UINT8, pb.TensorProto_BOOL:
		out = decodeElements(n, raw, t.Int32Data, convertNumber[T, uint8])
	case pb.TensorProto_INT8:
		out = decodeElements(n, raw, t.Int32Data, convertNumber[T, int8])
	case pb.TensorProto_UINT16:
		out = decodeElements(n, raw, t.Int32Data, convertNumber[T, uint16])
	case pb.TensorProto_INT16:
		out = decodeElements(n, raw, t.Int32Data, convertNumber[T, int16])
	case pb.TensorProto_UINT32:
		out = decodeElements(n, raw, t.Uint64Data, convertNumber[T, uint32])
	case pb.TensorProto_INT32:
		out = decodeElements(n, raw, t.Int32Data, convertNumber[T, int32])
	case pb.TensorProto_UINT64:
		out = decodeElements(n, raw, t.Uint64Data, convertNumber[T, int64])
	case pb.TensorProto_INT64:
		out = decodeElements(n, raw, t.Int64Data, convertNumber[T, int64])
	}
	if int64(len(out)) != n {
		return nil, nil, fmt.Errorf("tensor %q of shape %v holds %d values", t.GetName(), t.GetDims(), len(out))
	}
	return out, t.GetDims(), nil
}

func convertNumber[T, S number](v S) T { return T(v) }

// decodeElements decodes n numbers of type S from little-endian raw data. If there is no
// raw data, it converts the numbers of the typed field.
func decodeElements[S, V, T number](n int64, raw []byte, typed []V, convert func(S) T) []T {
	if raw == nil {
		out := make([]T, len(typed))
		for i, v := range typed {
			out[i] = convert(S(v))
		}
		return out
	}
	in := make([]S, n)
	if _, err := binary.Decode(raw, binary.LittleEndian, in); err != nil {
		panic(err) // cannot happen: the caller checked the length of raw
	}
	if decoded, ok := any(in).([]T); ok {
		return decoded
	}
	out := make([]T, n)
	for i, v := range in {
		out[i] = convert(v)
	}
	return out
}
