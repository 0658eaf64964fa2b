package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// graphCase is a test case: a function of floating-point inputs, built as a graph.
type graphCase struct {
	name   string
	opset  int64 // operator set; 0 means 17
	shapes [][]int64
	// low and high bound the values of the inputs. If both are 0, the bounds are −2 and 2.
	low, high float64
	// single marks operators that the runtime supports only in single precision.
	single bool
	build  func(b *onnx.Builder, x []string) string
}

func ints(v ...int64) []int64 { return v }

func op(name string, attrs ...*pb.AttributeProto) func(*onnx.Builder, []string) string {
	return func(b *onnx.Builder, x []string) string { return b.Node(name, x, attrs...) }
}

// opWithConsts returns a function that appends an operator whose last inputs are constants.
func opWithConsts(name string, constants []any, attrs ...*pb.AttributeProto) func(*onnx.Builder, []string) string {
	return func(b *onnx.Builder, x []string) string {
		x = append([]string(nil), x...)
		for _, c := range constants {
			x = append(x, b.Const(c))
		}
		return b.Node(name, x, attrs...)
	}
}

var (
	matrix           = [][]int64{{3, 4}}
	sameShapes       = [][]int64{{3, 4}, {3, 4}}
	rowBroadcast     = [][]int64{{3, 4}, {1, 4}}
	leadingBroadcast = [][]int64{{2, 3, 4}, {3, 1}}
	crossBroadcast   = [][]int64{{3, 1}, {2, 1, 4}}
)

var graphCases = []graphCase{
	{name: "Abs", shapes: matrix, build: op("Abs")},
	{name: "Add", shapes: sameShapes, build: op("Add")},
	{name: "Add broadcast", shapes: crossBroadcast, build: op("Add")},
	{name: "Sub broadcast", shapes: crossBroadcast, build: op("Sub")},
	{name: "Sum", shapes: [][]int64{{3, 4}, {4}, {3, 1}}, build: op("Sum")},
	{name: "Mul", shapes: rowBroadcast, build: op("Mul")},
	{name: "Mul leading", shapes: leadingBroadcast, build: op("Mul")},
	{name: "Mul scalar", shapes: [][]int64{{3, 4}, {1}}, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Mul", []string{x[0], b.Node("Squeeze", []string{x[1], b.Const(ints(0))})})
	}},
	{name: "Mul itself", shapes: matrix, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Mul", []string{x[0], x[0]})
	}},
	{name: "Div", shapes: rowBroadcast, low: 1, high: 2, build: op("Div")},
	{name: "Neg", shapes: matrix, build: op("Neg")},
	{name: "Reciprocal", shapes: matrix, low: 1, high: 2, build: op("Reciprocal")},
	{name: "Pow", shapes: rowBroadcast, low: 1, high: 2, build: op("Pow")},
	{name: "Pow constant", shapes: matrix, build: opWithConsts("Pow", []any{3.0})},
	{name: "Pow of another type", shapes: matrix, build: opWithConsts("Pow", []any{float32(2)})},
	{name: "Sqrt", shapes: matrix, low: 1, high: 2, build: op("Sqrt")},
	{name: "Exp", shapes: matrix, build: op("Exp")},
	{name: "Log", shapes: matrix, low: 1, high: 2, build: op("Log")},
	{name: "Max", shapes: rowBroadcast, build: op("Max")},
	{name: "Min of three", shapes: [][]int64{{3, 4}, {4}, {3, 4}}, build: op("Min")},
	{name: "Max of one", shapes: matrix, build: op("Max")},
	{name: "Relu", shapes: matrix, build: op("Relu")},
	{name: "Relu in single precision", shapes: matrix, single: true, build: op("Relu")},
	{name: "HardSigmoid", shapes: matrix, single: true, build: op("HardSigmoid", onnx.Attr("alpha", 0.5), onnx.Attr("beta", 0.25))},
	{name: "Sigmoid", shapes: matrix, build: op("Sigmoid")},
	{name: "Softplus", shapes: matrix, single: true, build: op("Softplus")},
	{name: "Tanh", shapes: matrix, build: op("Tanh")},
	{name: "Clip", shapes: matrix, build: opWithConsts("Clip", []any{-1.0, 0.5})},
	{name: "Clip above", shapes: matrix, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Clip", []string{x[0], "", b.Const(0.5)})
	}},
	{name: "Where", shapes: leadingBroadcast, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Where", []string{b.Node("Less", x), x[0], x[1]})
	}},
	{name: "Identity", shapes: matrix, build: op("Identity")},
	{name: "Cast", shapes: matrix, build: func(b *onnx.Builder, x []string) string {
		double := onnx.Attr("to", pb.TensorProto_DOUBLE)
		return b.Node("Cast", []string{b.Node("Cast", x, double)}, double)
	}},

	{name: "MatMul", shapes: [][]int64{{3, 4}, {4, 2}}, build: op("MatMul")},
	{name: "MatMul stacks", shapes: [][]int64{{5, 3, 4}, {5, 4, 2}}, build: op("MatMul")},
	{name: "MatMul stack by matrix", shapes: [][]int64{{5, 3, 4}, {4, 2}}, build: op("MatMul")},
	{name: "MatMul matrix by stack", shapes: [][]int64{{3, 4}, {5, 4, 2}}, build: op("MatMul")},
	{name: "MatMul broadcast stacks", shapes: [][]int64{{1, 3, 4}, {5, 4, 2}}, build: op("MatMul")},
	{name: "MatMul vectors", shapes: [][]int64{{4}, {4}}, build: op("MatMul")},
	{name: "MatMul vector by stack", shapes: [][]int64{{4}, {5, 4, 2}}, build: op("MatMul")},
	{name: "MatMul stack by vector", shapes: [][]int64{{5, 3, 4}, {4}}, build: op("MatMul")},
	{name: "Gemm", shapes: [][]int64{{3, 4}, {4, 2}, {2}}, build: op("Gemm")},
	{name: "Gemm without C", shapes: [][]int64{{3, 4}, {4, 2}}, build: op("Gemm")},
	{name: "Gemm A′", shapes: [][]int64{{4, 3}, {4, 2}, {3, 1}},
		build: op("Gemm", onnx.Attr("transA", 1), onnx.Attr("alpha", 0.5), onnx.Attr("beta", 2.0))},
	{name: "Gemm B′", shapes: [][]int64{{3, 4}, {2, 4}, {1, 2}},
		build: op("Gemm", onnx.Attr("transB", 1), onnx.Attr("alpha", 0.5))},
	{name: "Gemm A′B′", shapes: [][]int64{{4, 3}, {2, 4}, {3, 2}},
		build: op("Gemm", onnx.Attr("transA", 1), onnx.Attr("transB", 1))},

	{name: "ReduceSum", shapes: leadingBroadcast[:1], build: opWithConsts("ReduceSum", []any{ints(1)})},
	{name: "ReduceSum dropped", shapes: leadingBroadcast[:1], build: opWithConsts("ReduceSum", []any{ints(0, -1)}, onnx.Attr("keepdims", 0))},
	{name: "ReduceSum all", shapes: leadingBroadcast[:1], build: op("ReduceSum", onnx.Attr("keepdims", 0))},
	{name: "ReduceSum none", shapes: leadingBroadcast[:1],
		build: opWithConsts("ReduceSum", []any{ints()}, onnx.Attr("keepdims", 0), onnx.Attr("noop_with_empty_axes", 1))},
	{name: "ReduceMean attribute", shapes: leadingBroadcast[:1], build: op("ReduceMean", onnx.Attr("axes", ints(0, 2)), onnx.Attr("keepdims", 0))},
	{name: "ReduceMean input", opset: 18, shapes: leadingBroadcast[:1], build: opWithConsts("ReduceMean", []any{ints(-2)})},
	{name: "ReduceMean all", shapes: leadingBroadcast[:1], build: op("ReduceMean")},
	{name: "Softmax", shapes: leadingBroadcast[:1], build: op("Softmax")},
	{name: "Softmax axis", shapes: leadingBroadcast[:1], build: op("Softmax", onnx.Attr("axis", 1))},
	{name: "LogSoftmax", shapes: leadingBroadcast[:1], build: op("LogSoftmax", onnx.Attr("axis", -2))},

	{name: "Reshape", shapes: leadingBroadcast[:1], build: opWithConsts("Reshape", []any{ints(4, -1)})},
	{name: "Reshape zero", shapes: leadingBroadcast[:1], build: opWithConsts("Reshape", []any{ints(0, -1)})},
	{name: "Reshape chain", shapes: leadingBroadcast[:1], build: func(b *onnx.Builder, x []string) string {
		y := b.Node("Reshape", []string{b.Node("Flatten", x), b.Const(ints(2, 4, 3))})
		return b.Node("Squeeze", []string{b.Node("Unsqueeze", []string{y, b.Const(ints(1))}), b.Const(ints(1))})
	}},
	{name: "Flatten", shapes: leadingBroadcast[:1], build: op("Flatten")},
	{name: "Squeeze", shapes: [][]int64{{3, 1, 4, 1}}, build: opWithConsts("Squeeze", []any{ints(1)})},
	{name: "Squeeze all", shapes: [][]int64{{3, 1, 4, 1}}, build: op("Squeeze")},
	{name: "Unsqueeze", shapes: matrix, build: opWithConsts("Unsqueeze", []any{ints(0, -1)})},
	{name: "Transpose", shapes: leadingBroadcast[:1], build: op("Transpose")},
	{name: "Transpose perm", shapes: leadingBroadcast[:1], build: op("Transpose", onnx.Attr("perm", ints(1, 2, 0)))},
	{name: "Expand", shapes: [][]int64{{3, 1}}, build: opWithConsts("Expand", []any{ints(2, 1, 4)})},
	{name: "Expand like", shapes: crossBroadcast, build: func(b *onnx.Builder, x []string) string {
		return b.Node("Mul", []string{b.Node("Expand", []string{x[0], b.Node("Shape", x[1:])}), x[1]})
	}},
	{name: "Concat", shapes: [][]int64{{2, 3}, {2, 1}, {2, 2}}, build: op("Concat", onnx.Attr("axis", -1))},
	{name: "Split", shapes: leadingBroadcast[:1], build: func(b *onnx.Builder, x []string) string {
		parts := b.NodeN(3, "Split", []string{x[0], b.Const(ints(1, 1, 2))}, onnx.Attr("axis", 2))
		return b.Node("Mul", []string{parts[0], parts[2]})
	}},
	{name: "Slice", shapes: leadingBroadcast[:1], build: opWithConsts("Slice", []any{ints(1, -3), ints(1<<40, -1), ints(1, -1)})},
	{name: "Slice steps", shapes: leadingBroadcast[:1], build: opWithConsts("Slice", []any{ints(0, -1), ints(3, -5), ints(1, 2), ints(2, -1)})},
	{name: "Pad", shapes: matrix, build: opWithConsts("Pad", []any{ints(1, 0, 0, 2)})},
	{name: "ScatterElements", shapes: [][]int64{{5}, {2}}, build: func(b *onnx.Builder, x []string) string {
		return b.Node("ScatterElements", []string{x[0], b.Const(ints(3, 0)), x[1]})
	}},
	{name: "ScatterElements add", opset: 16, shapes: [][]int64{{5}, {3}}, build: func(b *onnx.Builder, x []string) string {
		return b.Node("ScatterElements", []string{x[0], b.Const(ints(3, 0, 3)), x[1]}, onnx.Attr("reduction", "add"))
	}},
	{name: "GatherElements", shapes: [][]int64{{5}}, build: opWithConsts("GatherElements", []any{ints(3, 0, 3)})},

	{name: "network", shapes: [][]int64{{5, 3}, {3, 4}, {4}, {4, 2}}, build: func(b *onnx.Builder, x []string) string {
		h := b.Node("Tanh", []string{b.Node("Gemm", x[:3])})
		z := b.Node("LogSoftmax", []string{b.Node("MatMul", []string{h, x[3]})})
		return b.Node("ReduceMean", []string{z}, onnx.Attr("keepdims", 0))
	}},
}
