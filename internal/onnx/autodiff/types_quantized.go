package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// inferQuantize: the zero point's type, else what output_dtype says, else uint8.
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

func inferMatMulIntegerToFloat(t *types, n *pb.NodeProto) []tensorType {
	return one(inferMatMul(t, n)[0].as(t.of(n.Input[2]).elem))
}

func inferQLinearMatMul(t *types, n *pb.NodeProto) []tensorType {
	out := t.productOf(t.of(n.Input[0]), t.of(n.Input[3]))
	return one(out.as(t.of(n.Input[7]).elem))
}

func inferFusedMatMul(t *types, n *pb.NodeProto) []tensorType {
	turned := func(input int, name string) tensorType {
		x := t.of(n.Input[input])
		if r := len(x.dims); r > 1 && onnx.AttributeInt(n, name, 0) != 0 {
			x.dims = append(append([]dimension(nil), x.dims[:r-2]...), x.dims[r-1], x.dims[r-2])
		}
		return x
	}
	if onnx.AttributeInt(n, "transBatchA", 0) != 0 || onnx.AttributeInt(n, "transBatchB", 0) != 0 {
		return one(tensorType{elem: t.of(n.Input[0]).elem})
	}
	return one(t.productOf(turned(0, "transA"), turned(1, "transB")))
}

func inferConvInteger(t *types, n *pb.NodeProto) []tensorType {
	return one(inferConv(t, n)[0].as(pb.TensorProto_INT32))
}

func inferQLinearConv(t *types, n *pb.NodeProto) []tensorType {
	real := &pb.NodeProto{Input: []string{n.Input[0], n.Input[3]}, Attribute: n.Attribute}
	return one(inferConv(t, real)[0].as(t.of(n.Input[7]).elem))
}
