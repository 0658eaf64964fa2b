package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

var cube = [][]int64{{2, 3, 4}}

// imageAndVectors returns the shapes of an image and of n vectors that have one number per
// channel.
func imageAndVectors(n int) [][]int64 {
	shapes := [][]int64{{2, 4, 3, 2}}
	for range n {
		shapes = append(shapes, []int64{4})
	}
	return shapes
}

// classicalOp returns a function that appends an operator of the domain ai.onnx.ml.
func classicalOp(name string, attrs ...*pb.AttributeProto) func(*onnx.Builder, []string) string {
	return func(b *onnx.Builder, x []string) string {
		b.Import(classicalDomain, 1)
		return b.Append(onnx.Node{Op: name, Domain: classicalDomain, Inputs: x, Attrs: attrs})[0]
	}
}

var activationCases = []graphCase{
	{name: "Erf", shapes: matrix, single: true, build: op("Erf")},
	{name: "Elu", shapes: matrix, single: true, build: op("Elu", onnx.Attr("alpha", 0.7))},
	{name: "Selu", shapes: matrix, single: true, build: op("Selu")},
	{name: "Celu", shapes: matrix, single: true, build: op("Celu", onnx.Attr("alpha", 0.6))},
	{name: "LeakyRelu", shapes: matrix, single: true, build: op("LeakyRelu", onnx.Attr("alpha", 0.2))},
	{name: "PRelu", shapes: [][]int64{{2, 3, 4}, {3, 1}}, build: op("PRelu")},
	{name: "HardSwish", shapes: matrix, low: -5, high: 5, single: true, build: op("HardSwish")},
	{name: "Swish", opset: 24, shapes: matrix, single: true, build: op("Swish", onnx.Attr("alpha", 1.3))},
	{name: "Mish", opset: 18, shapes: matrix, single: true, build: op("Mish")},
	{name: "Softsign", shapes: matrix, single: true, build: op("Softsign")},
	{name: "Gelu", opset: 20, shapes: matrix, single: true, build: op("Gelu")},
	{name: "Gelu tanh", opset: 20, shapes: matrix, single: true, build: op("Gelu", onnx.Attr("approximate", "tanh"))},
	{name: "Sin", shapes: matrix, build: op("Sin")},
	{name: "Cos", shapes: matrix, build: op("Cos")},
	{name: "Mean", shapes: [][]int64{{3, 4}, {4}, {3, 1}}, single: true, build: op("Mean")},
	{name: "Pow none", shapes: matrix, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Pow", []string{b.Node("Relu", x), b.Const([]float64{0, 1, 2, 3})})
	}},
}

var normalizationCases = []graphCase{
	{name: "BatchNormalization", shapes: imageAndVectors(4), low: 0.5, high: 2, build: op("BatchNormalization")},
	{name: "BatchNormalization of rows", shapes: [][]int64{{5, 4}, {4}, {4}, {4}, {4}}, low: 0.5, high: 2,
		build: op("BatchNormalization", onnx.Attr("epsilon", 0.1))},
	{name: "InstanceNormalization", shapes: imageAndVectors(2), single: true, build: op("InstanceNormalization")},
	{name: "GroupNormalization", opset: 21, shapes: imageAndVectors(2), single: true, build: op("GroupNormalization", onnx.Attr("num_groups", 2))},
	{name: "LayerNormalization", shapes: [][]int64{{2, 3, 4}, {4}, {4}}, build: op("LayerNormalization")},
	{name: "LayerNormalization from axis", shapes: [][]int64{{2, 3, 4}, {3, 4}},
		build: op("LayerNormalization", onnx.Attr("axis", 1), onnx.Attr("epsilon", 0.1))},
	{name: "RMSNormalization", opset: 23, shapes: [][]int64{{2, 3, 4}, {4}}, build: op("RMSNormalization")},
	{name: "LpNormalization", shapes: cube, build: op("LpNormalization", onnx.Attr("axis", 1))},
	{name: "Scaler", shapes: matrix, single: true,
		build: classicalOp("Scaler", onnx.Attr("offset", []float32{1, -2, 0, .5}), onnx.Attr("scale", []float32{2, .5, -1, 3}))},
	{name: "Scaler of one number", shapes: matrix, single: true,
		build: classicalOp("Scaler", onnx.Attr("offset", []float32{1}), onnx.Attr("scale", []float32{3}))},
	{name: "Normalizer", shapes: matrix, single: true, build: classicalOp("Normalizer")},
	{name: "Normalizer L1", shapes: matrix, single: true, build: classicalOp("Normalizer", onnx.Attr("norm", "L1"))},
	{name: "Normalizer L2", shapes: matrix, single: true, build: classicalOp("Normalizer", onnx.Attr("norm", "L2"))},
	{name: "LpNormalization of 1", shapes: cube, build: op("LpNormalization", onnx.Attr("p", 1))},
	{name: "LRN", shapes: [][]int64{{2, 6, 2, 1}}, single: true,
		build: op("LRN", onnx.Attr("size", 3), onnx.Attr("alpha", 0.5), onnx.Attr("beta", 0.6), onnx.Attr("bias", 2.0))},
}

var reductionCases = []graphCase{
	{name: "ReduceMax", shapes: cube, build: op("ReduceMax", onnx.Attr("axes", ints(1)))},
	{name: "ReduceMax input", opset: 18, shapes: cube, build: opWithConsts("ReduceMax", []any{ints(-1, 0)}, onnx.Attr("keepdims", 0))},
	{name: "ReduceMax none", opset: 18, shapes: cube, build: op("ReduceMax", onnx.Attr("noop_with_empty_axes", 1))},
	{name: "ReduceMin", shapes: cube, build: op("ReduceMin", onnx.Attr("keepdims", 0))},
	{name: "ReduceL1", shapes: cube, build: op("ReduceL1", onnx.Attr("axes", ints(0, 2)), onnx.Attr("keepdims", 0))},
	{name: "ReduceL2", shapes: cube, build: op("ReduceL2", onnx.Attr("axes", ints(-1)))},
	{name: "ReduceL2 all", opset: 20, shapes: cube, build: op("ReduceL2", onnx.Attr("keepdims", 0))},
	{name: "ReduceLogSumExp", shapes: cube, build: op("ReduceLogSumExp", onnx.Attr("axes", ints(1)), onnx.Attr("keepdims", 0))},
	{name: "ReduceSumSquare", opset: 18, shapes: cube, build: opWithConsts("ReduceSumSquare", []any{ints(1)})},
	{name: "CumSum", shapes: cube, build: opWithConsts("CumSum", []any{int64(1)})},
	{name: "CumSum exclusive from the end", shapes: cube,
		build: opWithConsts("CumSum", []any{int64(-1)}, onnx.Attr("exclusive", 1), onnx.Attr("reverse", 1))},
	{name: "Einsum", shapes: [][]int64{{2, 3, 4}, {2, 4, 5}}, build: op("Einsum", onnx.Attr("equation", "bij,bjk->bki"))},
	{name: "Einsum implicit", shapes: [][]int64{{3, 4}, {4, 2}}, build: op("Einsum", onnx.Attr("equation", "i j , j k"))},
	{name: "Einsum of one", shapes: matrix, build: op("Einsum", onnx.Attr("equation", "ij->j"))},
	{name: "Einsum of three", shapes: [][]int64{{2, 3}, {3, 4}, {4}}, build: op("Einsum", onnx.Attr("equation", "ij,jk,k->i"))},
	{name: "Einsum sums alone", shapes: [][]int64{{2, 3}, {2, 4}}, build: op("Einsum", onnx.Attr("equation", "ij,ik->i"))},
	{name: "Einsum ellipsis", shapes: [][]int64{{2, 3, 4}, {1, 4, 2}}, build: op("Einsum", onnx.Attr("equation", "...ij,...jk->...ik"))},
}

var indexingCases = []graphCase{
	{name: "Gather", shapes: cube, build: opWithConsts("Gather", []any{ints(2, -3, 2)}, onnx.Attr("axis", 1))},
	{name: "Gather one", shapes: cube, build: opWithConsts("Gather", []any{int64(-1)}, onnx.Attr("axis", 1))},
	{name: "Gather first axis", shapes: matrix, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Gather", []string{x[0], b.Const(ints(0, 1, 2, 1), 2, 2)})
	}},
	{name: "Gather two axes of indices", shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Gather", []string{x[0], b.Const(ints(0, 1, 3, 1), 2, 2)}, onnx.Attr("axis", -1))
	}},
	{name: "GatherND", shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.Node("GatherND", []string{x[0], b.Const(ints(0, 1, 1, -1, 0, 1), 3, 2)})
	}},
	{name: "GatherND batch", shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.Node("GatherND", []string{x[0], b.Const(ints(2, 0, 1, 1), 2, 2, 1)}, onnx.Attr("batch_dims", 1))
	}},
	{name: "ScatterND", shapes: [][]int64{{4, 3}, {2, 3}}, build: func(b *onnx.Builder, x []string) string {
		return b.Node("ScatterND", []string{x[0], b.Const(ints(3, 1), 2, 1), x[1]})
	}},
	{name: "ScatterND add", shapes: [][]int64{{4, 3}, {2, 3}}, build: func(b *onnx.Builder, x []string) string {
		return b.Node("ScatterND", []string{x[0], b.Const(ints(3, 3), 2, 1), x[1]}, onnx.Attr("reduction", "add"))
	}},
	{name: "TopK", shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.NodeN(2, "TopK", []string{x[0], b.Const(ints(2))}, onnx.Attr("axis", 1), onnx.Attr("largest", 0))[0]
	}},
	{name: "Tile", shapes: cube, build: opWithConsts("Tile", []any{ints(2, 1, 3)})},
	{name: "Trilu", shapes: cube, build: opWithConsts("Trilu", []any{int64(1)}, onnx.Attr("upper", 0))},
	{name: "Trilu upper", shapes: cube, build: op("Trilu")},
	{name: "Split with a part unused", shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.NodeN(2, "Split", x, onnx.Attr("axis", 0))[1]
	}},
	{name: "Split by number", opset: 18, shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.NodeN(2, "Split", x, onnx.Attr("axis", 1), onnx.Attr("num_outputs", 2))[0]
	}},
	{name: "Slice by 2", shapes: cube, build: opWithConsts("Slice", []any{ints(0, 1), ints(3, 4), ints(1, 2), ints(2, 2)})},
	{name: "Slice by 2 to the end", shapes: cube, build: opWithConsts("Slice", []any{ints(1), ints(1 << 40), ints(2), ints(2)})},
	{name: "Slice by 3 backwards", shapes: [][]int64{{8, 2}}, build: opWithConsts("Slice", []any{ints(-1), ints(-1 << 40), ints(0), ints(-3)})},
	{name: "Pad crops", shapes: cube, build: opWithConsts("Pad", []any{ints(0, -1, 2, 0, 1, -1)})},
	{name: "Pad reflect", shapes: cube, build: opWithConsts("Pad", []any{ints(0, 1, 2, 0, 2, 1)}, onnx.Attr("mode", "reflect"))},
	{name: "Pad edge", shapes: cube, build: opWithConsts("Pad", []any{ints(0, 1, 2, 0, 2, 0)}, onnx.Attr("mode", "edge"))},
	{name: "Pad wrap", opset: 19, shapes: cube, build: opWithConsts("Pad", []any{ints(0, 1, 2, 0, 2, 0)}, onnx.Attr("mode", "wrap"))},
	{name: "Pad axes", opset: 18, shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Pad", []string{x[0], b.Const(ints(1, 2)), "", b.Const(ints(-2))})
	}},
	{name: "Pad axes reflect", opset: 18, shapes: cube, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Pad", []string{x[0], b.Const(ints(1, 2)), "", b.Const(ints(-2))}, onnx.Attr("mode", "reflect"))
	}},
	{name: "Dropout", shapes: matrix, build: op("Dropout")},
}
