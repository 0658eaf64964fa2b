package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// inferQuantize returns the zero point's type, or output_dtype, or uint8 by default.
func inferQuantize(t *types, n *pb.NodeProto) []tensorType {
	elem := pb.TensorProto_DataType(onnx.AttributeInt(n, "output_dtype", int64(pb.TensorProto_UINT8)))
	if len(n.Input) > 2 && n.Input[2] != "" {
		elem = t.of(n.Input[2]).elem
	}
	return one(t.of(n.Input[0]).as(elem))
}

func inferDequantize(t *types, n *pb.NodeProto) []tensorType {
	return one(t.of(n.Input[0]).as(t.of(n.Input[1]).elem))
}

func inferDynamicQuantize(t *types, n *pb.NodeProto) []tensorType {
	scalar := tensorType{elem: pb.TensorProto_FLOAT, ranked: true}
	return []tensorType{t.of(n.Input[0]).as(pb.TensorProto_UINT8), scalar, scalar.as(pb.TensorProto_UINT8)}
}

func inferMatMulInteger(t *types, n *pb.NodeProto) []tensorType {
	return one(inferMatMul(t, n)[0].as(pb.TensorProto_INT32))
}

// inferZeroPoint infers only the element type, from the result's zero point.
func inferZeroPoint(t *types, n *pb.NodeProto) []tensorType {
	return one(tensorType{elem: t.of(n.Input[7]).elem})
}

func inferConvInteger(t *types, n *pb.NodeProto) []tensorType {
	return one(inferConv(t, n)[0].as(pb.TensorProto_INT32))
}
