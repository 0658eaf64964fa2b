package ort

import "fmt"

// DType is the element type of a tensor. Its values are those of ONNX's TensorProto.DataType.
type DType int

// Element types. BFloat16, String and what is newer can be the type of a model's input or output, but no [Tensor] holds them.
const (
	Undefined DType = 0
	Float32   DType = 1
	Uint8     DType = 2
	Int8      DType = 3
	Uint16    DType = 4
	Int16     DType = 5
	Int32     DType = 6
	Int64     DType = 7
	String    DType = 8
	Bool      DType = 9
	Float16   DType = 10
	Float64   DType = 11
	Uint32    DType = 12
	Uint64    DType = 13
	BFloat16  DType = 16
)

// String returns the name used by NumPy, such as "float32".
func (d DType) String() string {
	switch d {
	case Undefined:
		return "undefined"
	case Float32:
		return "float32"
	case Uint8:
		return "uint8"
	case Int8:
		return "int8"
	case Uint16:
		return "uint16"
	case Int16:
		return "int16"
	case Int32:
		return "int32"
	case Int64:
		return "int64"
	case String:
		return "string"
	case Bool:
		return "bool"
	case Float16:
		return "float16"
	case Float64:
		return "float64"
	case Uint32:
		return "uint32"
	case Uint64:
		return "uint64"
	case BFloat16:
		return "bfloat16"
	}
	return fmt.Sprintf("dtype(%d)", int(d))
}

func dtypeOf[T Number]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	}
	return Bool
}

// held says whether a [Tensor] can hold the type.
func (d DType) held() bool { return d != Undefined && d != String && (d <= Uint64) }
