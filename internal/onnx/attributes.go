package onnx

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Attribute returns the attribute of a node with the given name, or nil.
func Attribute(n *pb.NodeProto, name string) *pb.AttributeProto {
	for _, a := range n.GetAttribute() {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

// AttributeInt returns an integer attribute of a node, or fallback if it is absent.
func AttributeInt(n *pb.NodeProto, name string, fallback int64) int64 {
	if a := Attribute(n, name); a != nil {
		return a.GetI()
	}
	return fallback
}

// AttributeFloat returns a float attribute of a node, or fallback if it is absent.
func AttributeFloat(n *pb.NodeProto, name string, fallback float32) float32 {
	if a := Attribute(n, name); a != nil {
		return a.GetF()
	}
	return fallback
}

// AttributeInts returns an attribute that is a list of integers, or nil if it is absent.
func AttributeInts(n *pb.NodeProto, name string) []int64 {
	return Attribute(n, name).GetInts()
}

// AttributeString returns a string attribute of a node, or fallback if it is absent.
func AttributeString(n *pb.NodeProto, name, fallback string) string {
	if a := Attribute(n, name); a != nil {
		return string(a.GetS())
	}
	return fallback
}

// Attr returns an attribute for a node. value is an int, int64, bool (stored as 0 or 1),
// float32, float64 (stored as float32), string, a slice of int64, float32 or string, a
// TensorProto_DataType, a tensor or a graph. Attr panics for other types.
func Attr(name string, value any) *pb.AttributeProto {
	a := &pb.AttributeProto{Name: proto.String(name)}
	switch v := value.(type) {
	case int:
		a.I = proto.Int64(int64(v))
	case int64:
		a.I = proto.Int64(v)
	case bool:
		a.I = proto.Int64(0)
		if v {
			a.I = proto.Int64(1)
		}
	case pb.TensorProto_DataType:
		a.I = proto.Int64(int64(v))
	case float32:
		a.F = proto.Float32(v)
	case float64:
		a.F = proto.Float32(float32(v))
	case string:
		a.S = []byte(v)
	case []int64:
		a.Type = pb.AttributeProto_INTS.Enum()
		a.Ints = append(a.Ints, v...)
	case []float32:
		a.Type = pb.AttributeProto_FLOATS.Enum()
		a.Floats = append(a.Floats, v...)
	case []string:
		a.Type = pb.AttributeProto_STRINGS.Enum()
		for _, s := range v {
			a.Strings = append(a.Strings, []byte(s))
		}
	case *pb.TensorProto:
		a.Type, a.T = pb.AttributeProto_TENSOR.Enum(), v
	case *pb.GraphProto:
		a.Type, a.G = pb.AttributeProto_GRAPH.Enum(), v
	default:
		panic(fmt.Sprintf("onnx: attribute %q of type %T", name, value))
	}
	switch {
	case a.Type != nil:
	case a.I != nil:
		a.Type = pb.AttributeProto_INT.Enum()
	case a.F != nil:
		a.Type = pb.AttributeProto_FLOAT.Enum()
	default:
		a.Type = pb.AttributeProto_STRING.Enum()
	}
	return a
}

// Tensor returns a tensor without a name. Builder.Const lists the types that value may
// have. Tensor panics for other types, and if the length of a slice does not match dims.
func Tensor(value any, dims ...int64) *pb.TensorProto {
	if v, ok := value.(int); ok {
		value = int64(v)
	}
	var t pb.TensorProto_DataType
	switch value.(type) {
	case float32, []float32:
		t = pb.TensorProto_FLOAT
	case float64, []float64:
		t = pb.TensorProto_DOUBLE
	case int64, []int64:
		t = pb.TensorProto_INT64
	case int32, []int32:
		t = pb.TensorProto_INT32
	case uint8, []uint8:
		t = pb.TensorProto_UINT8
	case bool, []bool:
		t = pb.TensorProto_BOOL
	default:
		panic(fmt.Sprintf("onnx: constant of type %T", value))
	}
	raw, err := binary.Append(nil, binary.LittleEndian, value)
	if err != nil {
		panic("onnx: " + err.Error())
	}
	n := int64(len(raw)) / elementTypes[t].bytes
	if dims == nil && reflect.TypeOf(value).Kind() == reflect.Slice {
		dims = []int64{n}
	}
	size := int64(1)
	for _, d := range dims {
		size *= d
	}
	if size != n {
		panic(fmt.Sprintf("onnx: constant of %d values with shape %v", n, dims))
	}
	return &pb.TensorProto{DataType: proto.Int32(int32(t)), Dims: append([]int64(nil), dims...), RawData: raw}
}

// ValueInfo returns the declaration of a tensor with its name, type and shape.
// Builder.Input explains the types of dims.
func ValueInfo(name string, t pb.TensorProto_DataType, dims ...any) *pb.ValueInfoProto {
	shape := &pb.TensorShapeProto{}
	for _, d := range dims {
		dim := &pb.TensorShapeProto_Dimension{}
		switch v := d.(type) {
		case int:
			setDim(dim, int64(v))
		case int64:
			setDim(dim, v)
		case string:
			dim.Value = &pb.TensorShapeProto_Dimension_DimParam{DimParam: v}
		default:
			panic(fmt.Sprintf("onnx: dimension of type %T", d))
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
		TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(t)), Shape: shape},
	}}}
}

// Shape returns the declared shape of v, or nil if v declares none. A dimension is −1 if it
// varies or is smaller than minimum.
func Shape(v *pb.ValueInfoProto, minimum int64) []int64 {
	s := v.GetType().GetTensorType().GetShape()
	if s == nil {
		return nil
	}
	dims := make([]int64, len(s.GetDim()))
	for i, d := range s.GetDim() {
		x, ok := d.GetValue().(*pb.TensorShapeProto_Dimension_DimValue)
		if dims[i] = -1; ok && x.DimValue >= minimum {
			dims[i] = x.DimValue
		}
	}
	return dims
}

func setDim(d *pb.TensorShapeProto_Dimension, n int64) {
	if n >= 0 {
		d.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: n}
	}
}
