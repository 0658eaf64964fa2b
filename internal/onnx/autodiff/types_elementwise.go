package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// inferFuncs maps operators to functions that infer the types of their outputs. For other
// operators, types.infer uses the declarations in the model and the element type of the
// first input.
var inferFuncs = map[string]func(*types, *pb.NodeProto) []tensorType{
	"Abs": sameAsInput, "Cast": inferCast, "CastLike": inferCastLike, "Ceil": sameAsInput, "Clip": sameAsInput,
	"Elu": sameAsInput, "Erf": sameAsInput, "Exp": sameAsInput, "Floor": sameAsInput, "HardSigmoid": sameAsInput, "Identity": sameAsInput,
	"LeakyRelu": sameAsInput, "Log": sameAsInput, "LogSoftmax": sameAsInput, "Neg": sameAsInput,
	"Reciprocal": sameAsInput, "Relu": sameAsInput, "Round": sameAsInput, "ScatterElements": sameAsInput,
	"Sigmoid": sameAsInput, "Sign": sameAsInput, "Softmax": sameAsInput, "Softplus": sameAsInput,
	"Sqrt": sameAsInput, "Tanh": sameAsInput,

	"Add": inferBroadcast, "Div": inferBroadcast, "Max": inferBroadcast, "Min": inferBroadcast, "Mul": inferBroadcast, "Pow": inferBroadcast,
	"Sub": inferBroadcast, "Sum": inferBroadcast,
	"And": inferBroadcastBool, "Equal": inferBroadcastBool, "Greater": inferBroadcastBool, "GreaterOrEqual": inferBroadcastBool,
	"Less": inferBroadcastBool, "LessOrEqual": inferBroadcastBool, "Not": inferBroadcastBool, "Or": inferBroadcastBool, "Xor": inferBroadcastBool,
	"Where": inferWhere,

	"MatMul": inferMatMul, "Gemm": inferGemm,
	"ReduceL1": inferReduce, "ReduceL2": inferReduce, "ReduceLogSumExp": inferReduce,
	"ReduceMax": inferReduce, "ReduceMean": inferReduce, "ReduceMin": inferReduce, "ReduceProd": inferReduce,
	"ReduceSum": inferReduce, "ReduceSumSquare": inferReduce, "ArgMax": inferArg, "ArgMin": inferArg,

	"Celu": sameAsInput, "Cos": sameAsInput, "Gelu": sameAsInput, "HardSwish": sameAsInput, "Hardmax": sameAsInput,
	"Mish": sameAsInput, "PRelu": sameAsInput, "Selu": sameAsInput, "Sin": sameAsInput, "Softsign": sameAsInput,
	"Swish": sameAsInput, "Mean": inferBroadcast, "Mod": inferBroadcast,

	"BatchNormalization": sameAsInput, "GroupNormalization": sameAsInput, "InstanceNormalization": sameAsInput,
	"LRN": sameAsInput, "LayerNormalization": sameAsInput, "LpNormalization": sameAsInput, "RMSNormalization": sameAsInput,

	"ConstantOfShape": inferConstantOfShape, "CumSum": sameAsInput, "Dropout": inferDropout,
	"Einsum": inferEinsum, "Gather": inferGather, "GatherND": inferGatherND, "IsInf": inferElement(pb.TensorProto_BOOL),
	"IsNaN": inferElement(pb.TensorProto_BOOL), "NonZero": inferNonZero, "Range": inferRange,
	"ScatterND": sameAsInput, "Tile": inferTile, "TopK": inferTopK, "Trilu": sameAsInput,

	"DequantizeLinear": inferDequantize, "DynamicQuantizeLinear": inferDynamicQuantize, "MatMulInteger": inferMatMulInteger,
	"ConvInteger": inferConvInteger, "QLinearConv": inferQLinear, "QLinearMatMul": inferQLinear,
	"QuantizeLinear": inferQuantize,

	"AveragePool": inferPool, "Conv": inferConv, "ConvTranspose": inferConvTranspose, "DepthToSpace": inferDepthToSpace,
	"GlobalAveragePool": inferGlobalPool, "GlobalMaxPool": inferGlobalPool,
	"MaxPool": inferPool, "Resize": inferResize, "SpaceToDepth": inferSpaceToDepth,

	"Concat": inferConcat, "Constant": inferConstant, "Expand": inferExpand, "Flatten": inferFlatten,
	"GatherElements": inferGatherElements, "Pad": inferPad, "Reshape": inferReshape, "Shape": inferShape,
	"Size": inferSize, "Slice": inferSlice, "Split": inferSplit, "Squeeze": inferSqueeze,
	"Transpose": inferTranspose, "Unsqueeze": inferUnsqueeze,
}

func oneOutput(t tensorType) []tensorType { return []tensorType{t} }

func sameAsInput(t *types, n *pb.NodeProto) []tensorType { return oneOutput(t.get(n.Input[0])) }

func inferCast(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	x.elem = pb.TensorProto_DataType(onnx.AttributeInt(n, "to", 0))
	return oneOutput(x)
}

func inferCastLike(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	x.elem = t.get(n.Input[1]).elem
	return oneOutput(x)
}

func inferBroadcast(t *types, n *pb.NodeProto) []tensorType {
	out := t.get(n.Input[0])
	for _, in := range n.Input[1:] {
		out = broadcastTypes(out, t.get(in))
	}
	return oneOutput(out)
}

func inferBroadcastBool(t *types, n *pb.NodeProto) []tensorType {
	out := inferBroadcast(t, n)
	out[0].elem = pb.TensorProto_BOOL
	return out
}

func inferWhere(t *types, n *pb.NodeProto) []tensorType {
	out := broadcastTypes(t.get(n.Input[1]), t.get(n.Input[2]))
	return oneOutput(broadcastTypes(out, t.get(n.Input[0])))
}

// broadcastTypes returns the type to which a and b are broadcast, with the element type of
// a. If that is unknown, it uses the element type of b, unless b is boolean.
func broadcastTypes(a, b tensorType) tensorType {
	out := tensorType{elem: a.elem}
	if out.elem == pb.TensorProto_UNDEFINED && b.elem != pb.TensorProto_BOOL {
		out.elem = b.elem
	}
	if !a.ranked || !b.ranked {
		return out
	}
	out.ranked, out.dims = true, broadcastDims(a.dims, b.dims)
	return out
}

func broadcastDims(a, b []dimension) []dimension {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]dimension(nil), a...)
	lead := len(a) - len(b)
	for i, y := range b {
		x := a[lead+i]
		switch {
		case x.n == 1 || y.n > 1:
			out[lead+i] = y
		case y.n == 1 || x.known() || x.symbol != "" && x == y:
		default:
			out[lead+i] = dimension{n: -1}
		}
	}
	return out
}

func inferMatMul(t *types, n *pb.NodeProto) []tensorType {
	a, b := t.get(n.Input[0]), t.get(n.Input[1])
	out := tensorType{elem: a.elem}
	if !a.ranked || !b.ranked || len(a.dims) == 0 || len(b.dims) == 0 {
		return oneOutput(out)
	}
	out.ranked = true
	ra, rb := len(a.dims), len(b.dims)
	var leadA, leadB []dimension
	if ra > 2 {
		leadA = a.dims[:ra-2]
	}
	if rb > 2 {
		leadB = b.dims[:rb-2]
	}
	out.dims = broadcastDims(leadA, leadB)
	if ra > 1 {
		out.dims = append(out.dims, a.dims[ra-2])
	}
	if rb > 1 {
		out.dims = append(out.dims, b.dims[rb-1])
	}
	return oneOutput(out)
}

func inferGemm(t *types, n *pb.NodeProto) []tensorType {
	a, b := t.get(n.Input[0]), t.get(n.Input[1])
	out := tensorType{elem: a.elem, ranked: true, dims: []dimension{{n: -1}, {n: -1}}}
	if len(a.dims) == 2 {
		out.dims[0] = a.dims[onnx.AttributeInt(n, "transA", 0)&1]
	}
	if len(b.dims) == 2 {
		out.dims[1] = b.dims[1-onnx.AttributeInt(n, "transB", 0)&1]
	}
	return oneOutput(out)
}

func inferReduce(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem}
	keep := onnx.AttributeInt(n, "keepdims", 1) != 0
	axes, err := t.axes(n, 1)
	if err != nil || !x.ranked {
		if keep && x.ranked {
			out.ranked, out.dims = true, unknownDims(len(x.dims))
		}
		return oneOutput(out)
	}
	if axes == nil && onnx.AttributeInt(n, "noop_with_empty_axes", 0) != 0 {
		return oneOutput(x)
	}
	reduced := make([]bool, len(x.dims))
	for i := range reduced {
		reduced[i] = axes == nil
	}
	for _, a := range axes {
		a = wrapIndex(a, int64(len(reduced)))
		if a < 0 || a >= int64(len(reduced)) {
			return oneOutput(out)
		}
		reduced[a] = true
	}
	out.ranked = true
	for i, d := range x.dims {
		switch {
		case !reduced[i]:
			out.dims = append(out.dims, d)
		case keep:
			out.dims = append(out.dims, dimension{n: 1})
		}
	}
	return oneOutput(out)
}

func unknownDims(rank int) []dimension { return slices.Repeat([]dimension{{n: -1}}, rank) }
