package ort

import (
	"github.com/yalue/onnxruntime_go"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// elements are the types of Go that hold those of ONNX. Half precision and what is newer can be the type of a model's input or
// output, but no [Tensor] holds them.
var elements = map[pb.TensorProto_DataType]element{
	pb.TensorProto_FLOAT: of[float32]{}, pb.TensorProto_DOUBLE: of[float64]{}, pb.TensorProto_BOOL: of[bool]{},
	pb.TensorProto_INT8: of[int8]{}, pb.TensorProto_INT16: of[int16]{}, pb.TensorProto_INT32: of[int32]{}, pb.TensorProto_INT64: of[int64]{},
	pb.TensorProto_UINT8: of[uint8]{}, pb.TensorProto_UINT16: of[uint16]{}, pb.TensorProto_UINT32: of[uint32]{}, pb.TensorProto_UINT64: of[uint64]{},
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

func dtypeOf[T Number]() pb.TensorProto_DataType {
	for d, e := range elements {
		if _, ok := e.(of[T]); ok {
			return d
		}
	}
	return pb.TensorProto_UNDEFINED
}
