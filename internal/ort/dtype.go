package ort

import (
	"github.com/yalue/onnxruntime_go"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// DType is the element type of a tensor. Its values are those of ONNX's TensorProto.DataType.
type DType int

// Element types. Half precision and what is newer can be the type of a model's input or output, but no [Tensor] holds them.
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
	if d == Undefined {
		return "undefined"
	}
	return onnx.DTypeName(int32(d))
}

// held says whether a [Tensor] can hold the type.
func (d DType) held() bool { return d == String || elements[d] != nil }

// elements are the types of Go that hold those of ONNX.
var elements = map[DType]element{
	Float32: of[float32]{}, Float64: of[float64]{}, Bool: of[bool]{},
	Int8: of[int8]{}, Int16: of[int16]{}, Int32: of[int32]{}, Int64: of[int64]{},
	Uint8: of[uint8]{}, Uint16: of[uint16]{}, Uint32: of[uint32]{}, Uint64: of[uint64]{},
}

type element interface {
	adopt(v onnxruntime_go.Value) (*Tensor, bool) // a tensor of the type
}

type of[T Number] struct{}

func (of[T]) adopt(v onnxruntime_go.Value) (*Tensor, bool) {
	w, ok := v.(*onnxruntime_go.Tensor[T])
	if !ok {
		return nil, false
	}
	t := &Tensor{shape: w.GetShape(), dtype: dtypeOf[T](), data: w.GetData()}
	t, err := wrap(t, w.GetData(), func() (onnxruntime_go.Value, error) { return w, nil })
	return t, err == nil
}

func dtypeOf[T Number]() DType {
	for d, e := range elements {
		if _, ok := e.(of[T]); ok {
			return d
		}
	}
	return Undefined
}
