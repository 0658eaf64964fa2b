package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// inferQuantize infers the element type from the zero point, or else from the attribute
// output_dtype. The default is uint8.
func inferQuantize(t *types, n *pb.NodeProto) []tensorType {
	elem := pb.TensorProto_DataType(onnx.AttributeInt(n, "output_dtype", int64(pb.TensorProto_UINT8)))
	if len(n.Input) > 2 && n.Input[2] != "" {
		elem = t.get(n.Input[2]).elem
	}
	return oneOutput(t.get(n.Input[0]).withElem(elem))
}

func inferDequantize(t *types, n *pb.NodeProto) []tensorType {
	return oneOutput(t.get(n.Input[0]).withElem(t.get(n.Input[1]).elem))
}

func inferDynamicQuantize(t *types, n *pb.NodeProto) []tensorType {
	scalar := tensorType{elem: pb.TensorProto_FLOAT, ranked: true}
	return []tensorType{t.get(n.Input[0]).withElem(pb.TensorProto_UINT8), scalar, scalar.withElem(pb.TensorProto_UINT8)}
}

func inferMatMulInteger(t *types, n *pb.NodeProto) []tensorType {
	return oneOutput(inferMatMul(t, n)[0].withElem(pb.TensorProto_INT32))
}

// inferQLinear infers only the element type of the output. It is the type of input 7, the
// zero point of the output.
func inferQLinear(t *types, n *pb.NodeProto) []tensorType {
	return oneOutput(tensorType{elem: t.get(n.Input[7]).elem})
}

func inferConvInteger(t *types, n *pb.NodeProto) []tensorType {
	return oneOutput(inferConv(t, n)[0].withElem(pb.TensorProto_INT32))
}
