package graph

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Tensor is a tensor of a graph. Its methods append nodes to the graph and return the
// result. Reductions and products are along the last axis. Operands are tensors of the same
// graph, numbers (float64) or rows of numbers ([]float64, []float32), and are broadcast as
// in ONNX. If two tensors have different types, the operation uses float64 if one of them
// is float64, and float32 otherwise. Numbers take the type of the tensor. Methods panic if
// the numbers of columns or the types of operands do not fit.
type Tensor struct {
	b    *onnx.Builder
	name string
	elem pb.TensorProto_DataType
	cols int // size of the last axis
}

// Wrap returns a Tensor for an existing tensor of b's graph, with its element type and
// number of columns.
func Wrap(b *onnx.Builder, name string, elem pb.TensorProto_DataType, cols int) Tensor {
	return Tensor{b, name, elem, cols}
}

// WithCols returns x with n as its number of columns. It is for tensors with a number of
// columns that other methods cannot derive.
func (x Tensor) WithCols(n int) Tensor {
	x.cols = n
	return x
}

// Named changes the name of x in the graph. x must be the output of the last node. If the
// name is taken, it gets a suffix.
func (x Tensor) Named(name string) Tensor {
	x.name = x.b.Rename(x.name, name)
	return x
}

// Name returns the tensor's name in the graph.
func (x Tensor) Name() string { return x.name }

// Opset returns the version of the graph's default operator set.
func (x Tensor) Opset() int64 { return x.b.Opset() }

// Cols returns the size of the last axis.
func (x Tensor) Cols() int { return x.cols }

func (x Tensor) node(op string, inputs ...string) Tensor {
	return Tensor{x.b, x.b.Node(op, inputs), x.elem, x.cols}
}

// To converts x to the element type elem.
func (x Tensor) To(elem pb.TensorProto_DataType) Tensor {
	if x.elem == elem {
		return x
	}
	return Tensor{x.b, x.b.Node("Cast", []string{x.name}, onnx.Attr("to", elem)), elem, x.cols}
}

// Double converts x to float64.
func (x Tensor) Double() Tensor { return x.To(pb.TensorProto_DOUBLE) }

// Single converts x to float32.
func (x Tensor) Single() Tensor { return x.To(pb.TensorProto_FLOAT) }

// Constant adds a constant to the graph of x, in the precision of v. v is a matrix
// (rows.Matrix, blas32.General or blas64.General) or a list of numbers ([]float64,
// []float32, []int64, []int32). A list may have a shape, and is a vector by default.
func (x Tensor) Constant(v any, shape ...int) Tensor {
	if shape != nil {
		return x.constant(v, shape...)
	}
	switch v := v.(type) {
	case rows.Matrix:
		if v.Single != nil {
			return x.constant(v.Single, v.Rows, v.Cols)
		}
		return x.constant(v.Double, v.Rows, v.Cols)
	case blas32.General:
		return x.constant(contiguous(v.Data, v.Rows, v.Cols, v.Stride), v.Rows, v.Cols)
	case blas64.General:
		return x.constant(contiguous(v.Data, v.Rows, v.Cols, v.Stride), v.Rows, v.Cols)
	case []float64:
		return x.constant(v, len(v))
	case []float32:
		return x.constant(v, len(v))
	case []int64:
		return x.constant(v, len(v))
	case []int32:
		return x.constant(v, len(v))
	}
	panic(fmt.Sprintf("graph: a constant of type %T", v))
}

// Numbers adds a constant. Its element type is float64 if x has this type, and float32
// otherwise.
func (x Tensor) Numbers(v []float64, shape ...int) Tensor {
	if x.elem == pb.TensorProto_DOUBLE {
		return x.constant(v, shape...)
	}
	return x.constant(toFloat32s(v), shape...)
}

// toFloat32s converts numbers to float32.
func toFloat32s(v []float64) []float32 {
	s := make([]float32, len(v))
	for i, f := range v {
		s[i] = float32(f)
	}
	return s
}

// contiguous returns the elements of an n×cols matrix without the gaps between rows that a
// larger stride leaves.
func contiguous[T any](data []T, n, cols, stride int) []T {
	if stride == cols {
		return data[:n*cols]
	}
	var all []T
	for i := range n {
		all = append(all, data[i*stride:i*stride+cols]...)
	}
	return all
}

// constant adds the list v as a constant. Small equal constants share one tensor.
func (x Tensor) constant(v any, shape ...int) Tensor {
	c, size := Tensor{b: x.b, cols: shape[len(shape)-1]}, 1
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
		size *= d
	}
	switch v.(type) {
	case []float32:
		c.elem = pb.TensorProto_FLOAT
	case []float64:
		c.elem = pb.TensorProto_DOUBLE
	case []int64:
		c.elem = pb.TensorProto_INT64
	case []int32:
		c.elem = pb.TensorProto_INT32
	}
	if size > 1<<12 {
		c.name = x.b.Initializer("weights", v, dims...)
	} else {
		c.name = x.b.Const(v, dims...)
	}
	return c
}

// Compact returns a large matrix in float32 and a small one unchanged. It saves space in
// the graph for products that can bear float32 rounding: relative errors of at most a
// millionth.
func Compact(m blas64.General) any {
	if m.Rows*m.Cols <= 1<<16 {
		return m
	}
	data := contiguous(m.Data, m.Rows, m.Cols, m.Stride)
	single := blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols, Data: make([]float32, len(data))}
	for i, v := range data {
		single.Data[i] = float32(v)
	}
	return single
}

// operands converts x and v to a common element type.
func (x Tensor) operands(v any) (a, b Tensor) {
	switch v := v.(type) {
	case Tensor:
		switch {
		case x.elem == v.elem:
			return x, v
		case x.elem == pb.TensorProto_DOUBLE:
			return x, v.Double()
		case v.elem == pb.TensorProto_DOUBLE:
			return x.Double(), v
		}
		return x.Single(), v.Single()
	case float64:
		switch x.elem {
		case pb.TensorProto_DOUBLE:
			return x, Tensor{x.b, x.b.Const(v), x.elem, 1}
		case pb.TensorProto_INT64:
			return x, Tensor{x.b, x.b.Const(int64(v)), x.elem, 1}
		case pb.TensorProto_INT32:
			return x, Tensor{x.b, x.b.Const(int32(v)), x.elem, 1}
		}
		return x, Tensor{x.b, x.b.Const(float32(v)), x.elem, 1}
	case []float64:
		return x, x.Numbers(v, len(v))
	case []float32:
		if x.elem != pb.TensorProto_DOUBLE {
			return x, x.Constant(v)
		}
		double := make([]float64, len(v))
		for i, f := range v {
			double[i] = float64(f)
		}
		return x, x.Constant(double)
	}
	panic(fmt.Sprintf("graph: an operand of type %T", v))
}

// binaryOp appends an operator with two operands, after it has converted them to a common
// type.
func (x Tensor) binaryOp(op string, v any) Tensor {
	a, b := x.operands(v)
	if a.cols != b.cols && a.cols != 1 && b.cols != 1 {
		panic(fmt.Sprintf("graph: %s of %d and %d columns", op, a.cols, b.cols))
	}
	out := a.node(op, a.name, b.name)
	out.cols = max(a.cols, b.cols)
	return out
}

// Add returns x + v.
func (x Tensor) Add(v any) Tensor { return x.binaryOp("Add", v) }

// Sub returns x − v.
func (x Tensor) Sub(v any) Tensor { return x.binaryOp("Sub", v) }

// Mul returns x · v, element by element.
func (x Tensor) Mul(v any) Tensor { return x.binaryOp("Mul", v) }

// Div returns x / v.
func (x Tensor) Div(v any) Tensor { return x.binaryOp("Div", v) }

// Pow returns x to the power of v.
func (x Tensor) Pow(v any) Tensor { return x.binaryOp("Pow", v) }

// Max returns the larger of x and v.
func (x Tensor) Max(v any) Tensor { return x.binaryOp("Max", v) }

// Min returns the smaller of x and v.
func (x Tensor) Min(v any) Tensor { return x.binaryOp("Min", v) }

// Less returns a condition for Choose: x < v, element by element. It is false for NaN.
func (x Tensor) Less(v any) Tensor {
	c := x.binaryOp("Less", v)
	c.elem = pb.TensorProto_BOOL
	return c
}

// Is returns a condition: whether x equals v, element by element. It is false for NaN.
func (x Tensor) Is(v float64) Tensor {
	if x.b.Opset() < 11 { // Equal then takes no floating-point numbers
		return x.Sub(v).Abs().Less(1e-30)
	}
	c := x.binaryOp("Equal", v)
	c.elem = pb.TensorProto_BOOL
	return c
}

// Not negates a condition.
func (c Tensor) Not() Tensor { return c.node("Not", c.name) }

// And returns a condition that holds if c and v hold, element by element.
func (c Tensor) And(v Tensor) Tensor { return c.binaryOp("And", v) }

// All returns a condition that holds if c holds in all columns. The last axis keeps the size 1.
func (c Tensor) All() Tensor {
	return c.To(pb.TensorProto_INT32).reduce("ReduceMin").To(pb.TensorProto_BOOL)
}

// Or returns a condition that holds if c or v holds, element by element.
func (c Tensor) Or(v Tensor) Tensor { return c.binaryOp("Or", v) }

// Choose returns a if the condition c holds, and b otherwise, element by element.
func (c Tensor) Choose(a Tensor, b any) Tensor {
	p, q := a.operands(b)
	out := p.node("Where", c.name, p.name, q.name)
	out.cols = max(c.cols, p.cols, q.cols)
	return out
}

// Count counts the columns in which the condition c holds, as indices for Lookup. The last
// axis is removed. cols is the size of the axis that is then the last.
func (c Tensor) Count(cols int) Tensor {
	return c.To(pb.TensorProto_INT32).Reduce("ReduceSum", -1, cols)
}

// Exp returns eˣ.
func (x Tensor) Exp() Tensor { return x.node("Exp", x.name) }

// Log returns the natural logarithm.
func (x Tensor) Log() Tensor { return x.node("Log", x.name) }

// Sqrt returns the square root.
func (x Tensor) Sqrt() Tensor { return x.node("Sqrt", x.name) }

// Cos returns the cosine.
func (x Tensor) Cos() Tensor { return x.node("Cos", x.name) }

// Abs returns the absolute value.
func (x Tensor) Abs() Tensor { return x.node("Abs", x.name) }

// Sign returns −1, 0 or 1.
func (x Tensor) Sign() Tensor { return x.node("Sign", x.name) }

// Floor returns the largest integer that is not larger than x.
func (x Tensor) Floor() Tensor { return x.node("Floor", x.name) }

// IsNaN returns a condition, element by element, that holds where x is NaN. x must be
// float32.
func (x Tensor) IsNaN() Tensor {
	x = x.node("IsNaN", x.name)
	x.elem = pb.TensorProto_BOOL
	return x
}

// CumSum returns exclusive cumulative sums: each column becomes the sum of all columns
// before it.
func (x Tensor) CumSum() Tensor {
	if x.b.Opset() < 11 {
		sums := x
		for shift := 1; shift < x.cols; shift *= 2 {
			sums = sums.Add(sums.Columns(0, shift).Mul(0.).Concat(sums.Columns(0, x.cols-shift)))
		}
		return sums.Sub(x)
	}
	x.name = x.b.Node("CumSum", []string{x.name, x.b.Const(int64(-1))}, onnx.Attr("exclusive", 1))
	return x
}

// Reciprocal returns 1/x.
func (x Tensor) Reciprocal() Tensor { return x.node("Reciprocal", x.name) }

// Neg returns −x.
func (x Tensor) Neg() Tensor { return x.node("Neg", x.name) }

// Sigmoid returns 1/(1 + e⁻ˣ).
func (x Tensor) Sigmoid() Tensor { return x.node("Sigmoid", x.name) }

// Relu returns the larger of x and 0.
func (x Tensor) Relu() Tensor { return x.node("Relu", x.name) }

// Square returns x².
func (x Tensor) Square() Tensor { return x.node("Mul", x.name, x.name) }

// Log1p returns log(1 + x). It is precise for small x.
func (x Tensor) Log1p() Tensor {
	sum := x.Add(1.)
	rounded := sum.Sub(1.) // x after the rounding of 1 + x
	return rounded.Square().Neg().Less(0.).Choose(sum.Log().Mul(x.Div(rounded)), x)
}

// reduce applies a reduction to the last axis. The axis keeps the size 1.
func (x Tensor) reduce(op string) Tensor { return x.reduceAxis(op, -1, 1, 1) }

// Reduce removes an axis with a reduction such as ReduceMin. cols is the size of the last
// axis of the result.
func (x Tensor) Reduce(op string, axis, cols int) Tensor { return x.reduceAxis(op, axis, 0, cols) }

// reduceAxis applies a reduction to an axis. The axis keeps the size 1 if keep is 1, and is
// removed if keep is 0. The axes are an input of the node since operator set 18 (ReduceSum:
// 13), and an attribute before.
func (x Tensor) reduceAxis(op string, axis, keep, cols int) Tensor {
	axes, inputs, attrs := []int64{int64(axis)}, []string{x.name}, []*pb.AttributeProto{onnx.Attr("keepdims", keep)}
	if opset := x.b.Opset(); opset >= 18 || opset >= 13 && op == "ReduceSum" {
		inputs = append(inputs, x.b.Const(axes))
	} else {
		attrs = append(attrs, onnx.Attr("axes", axes))
	}
	return Tensor{x.b, x.b.Node(op, inputs, attrs...), x.elem, cols}
}

// Sum returns sums along the last axis. The axis keeps the size 1.
func (x Tensor) Sum() Tensor { return x.reduce("ReduceSum") }

// Mean returns means along the last axis. The axis keeps the size 1.
func (x Tensor) Mean() Tensor { return x.reduce("ReduceMean") }

// RowMax returns the largest numbers along the last axis.
func (x Tensor) RowMax() Tensor { return x.reduce("ReduceMax") }

// RowMin returns the smallest numbers along the last axis.
func (x Tensor) RowMin() Tensor { return x.reduce("ReduceMin") }

// SumSquares returns sums of squares along the last axis.
func (x Tensor) SumSquares() Tensor { return x.reduce("ReduceSumSquare") }

// LogSumExp returns log Σ eˣ along the last axis.
func (x Tensor) LogSumExp() Tensor { return x.reduce("ReduceLogSumExp") }

// Softmax returns eˣ / Σ eˣ along the last axis of a matrix.
func (x Tensor) Softmax() Tensor {
	x.name = x.b.Node("Softmax", []string{x.name}, onnx.Attr("axis", 1))
	return x
}

// ArgMax returns the index of the largest number along the last axis, as an index for Rows
// and Lookup. If several numbers are equal, the first counts.
func (x Tensor) ArgMax() Tensor { return x.argIndex("ArgMax") }

// ArgMaxOf returns the index of the largest number along the last axis of a matrix with blocks
// of equal length. It is faster than ArgMax if rows are long, because it searches only the
// block that holds the largest number. It needs operator set 12.
func (x Tensor) ArgMaxOf(blocks int) Tensor {
	block := x.cols / blocks
	all := x.Reshape(-1, int64(blocks), int64(block))
	best := all.Reduce("ReduceMax", 2, blocks).ArgMax()
	inBest := Tensor{x.b, x.b.Node("GatherND", []string{all.name, best.name}, onnx.Attr("batch_dims", 1)), x.elem, block}
	return best.Mul(float64(block)).Add(inBest.ArgMax())
}

// ArgMin returns the index of the smallest number along the last axis.
func (x Tensor) ArgMin() Tensor { return x.argIndex("ArgMin") }

func (x Tensor) argIndex(op string) Tensor {
	return Tensor{x.b, x.b.Node(op, []string{x.name}, onnx.Attr("axis", -1)), pb.TensorProto_INT64, 1}
}

// Top returns the k largest numbers along the last axis in descending order, and their
// indices.
func (x Tensor) Top(k int) (values, at Tensor) { return x.topK(k, true) }

func (x Tensor) topK(k int, largest bool) (values, at Tensor) {
	inputs, attrs := []string{x.name}, []*pb.AttributeProto{onnx.Attr("axis", -1)}
	if !largest {
		attrs = append(attrs, onnx.Attr("largest", 0))
	}
	if x.b.Opset() < 10 {
		attrs = append(attrs, onnx.Attr("k", k))
	} else {
		inputs = append(inputs, x.b.Const([]int64{int64(k)}))
	}
	out := x.b.NodeN(2, "TopK", inputs, attrs...)
	return Tensor{x.b, out[0], x.elem, k}, Tensor{x.b, out[1], pb.TensorProto_INT64, k}
}

// Sorted returns x with each row sorted in ascending order.
func (x Tensor) Sorted() Tensor {
	if x.cols == 1 {
		return x
	}
	values, _ := x.Smallest(x.cols)
	return values
}

// Interpolate computes quantiles at the given levels. x contains quantiles at the levels of
// grid. Interpolate is linear between them and constant outside the grid. A row with NaN or
// infinities returns NaN.
func (x Tensor) Interpolate(grid, levels []float64) Tensor {
	if slices.Equal(grid, levels) {
		return x
	}
	weights := make([]float64, len(grid)*len(levels))
	for i, l := range levels {
		for j, w := range quantile.Weights(grid, l) {
			weights[j*len(levels)+i] = w
		}
	}
	return x.MatMul(x.Constant(weights, len(grid), len(levels))).To(x.elem)
}

// Stack joins n×k matrices into one tensor n×matrices×k.
func Stack(all []Tensor) Tensor {
	if len(all) == 1 {
		return all[0].Reshape(-1, 1, int64(all[0].cols))
	}
	var names []string
	for _, x := range all {
		names = append(names, x.Reshape(-1, 1, int64(x.cols)).name)
	}
	x := all[0]
	x.name = x.b.Node("Concat", names, onnx.Attr("axis", 1))
	return x
}

// Smallest returns the k smallest numbers along the last axis in ascending order, and their
// indices.
func (x Tensor) Smallest(k int) (values, at Tensor) {
	if x.b.Opset() >= 11 {
		return x.topK(k, false)
	}
	values, at = x.Neg().Top(k)
	return values.Neg(), at
}

// MatMul returns the matrix product x·w in the precision of w. w is a Tensor or a value for
// Constant.
func (x Tensor) MatMul(w any) Tensor {
	m := x.asMatrix(w)
	out := x.To(m.elem).node("MatMul", x.To(m.elem).name, m.name)
	out.cols = m.cols
	return out
}

// Affine returns factor·x·wᵀ + c in the precision of w. w is a matrix as in MatMul. c is a
// row of numbers that is added to each row.
func (x Tensor) Affine(factor float64, w any, c []float64) Tensor {
	m := x.asMatrix(w)
	x = x.To(m.elem)
	_, row := x.operands(c)
	return Tensor{x.b, x.b.Node("Gemm", []string{x.name, m.name, row.name}, onnx.Attr("alpha", factor), onnx.Attr("transB", 1)), m.elem, row.cols}
}

// MulAdd returns x·w + c for matrices, in the precision of w. w is a matrix as in MatMul.
func (x Tensor) MulAdd(w any, c Tensor) Tensor {
	m := x.asMatrix(w)
	return Tensor{x.b, x.b.Node("Gemm", []string{x.To(m.elem).name, m.name, c.To(m.elem).name}), m.elem, m.cols}
}

// PropagateNaN returns x, n×1, with NaN in each row in which the matrix source contains NaN
// or an infinity.
func (x Tensor) PropagateNaN(source Tensor) Tensor {
	return source.MulAdd(source.Constant(make([]float64, source.cols), source.cols, 1), x)
}

// MatMulT returns the matrix product x·wᵀ. w is a matrix with n rows.
func (x Tensor) MatMulT(w any, n int) Tensor {
	m := x.asMatrix(w)
	if m.cols != x.cols {
		panic(fmt.Sprintf("graph: a product of %d and %d columns", x.cols, m.cols))
	}
	x = x.To(m.elem)
	inputs := []string{x.name, m.name}
	if x.b.Opset() < 11 {
		_, zero := x.operands([]float64{0}) // the bias became optional in a later operator set
		inputs = append(inputs, zero.name)
	}
	return Tensor{x.b, x.b.Node("Gemm", inputs, onnx.Attr("transB", 1)), m.elem, n}
}

func (x Tensor) asMatrix(w any) Tensor {
	if m, ok := w.(Tensor); ok {
		return m
	}
	return x.Constant(w)
}

// Rows returns the rows of the matrix w that have the indices x, n×1. w is a matrix as in
// MatMul.
func (x Tensor) Rows(w any) Tensor {
	m := x.asMatrix(w)
	return Tensor{x.b, x.b.Node("Gather", []string{m.name, x.Reshape(-1).name}), m.elem, m.cols}
}

// RowNumbers returns the indices of the rows of x, n×1, counted from 0.
func (x Tensor) RowNumbers() Tensor {
	positions := x.b.Node("NonZero", []string{x.Columns(0, 1).Mul(0.).Add(1.).name}) // shape 2×n for n rows
	first := Tensor{x.b, x.b.Node("Gather", []string{positions, x.b.Const(int64(0))}), pb.TensorProto_INT64, 1}
	return first.Reshape(-1, 1)
}

// Lookup returns the elements of a vector that have the indices x. table is a Tensor or a
// value for Constant.
func (x Tensor) Lookup(table any) Tensor {
	t := x.asMatrix(table)
	return Tensor{x.b, x.b.Node("Gather", []string{t.name, x.name}), t.elem, x.cols}
}

// Scatter returns a copy of the matrix x. In each row, it writes values to the columns
// whose indices are in at, in the form that Top returns.
func (x Tensor) Scatter(values, at Tensor) Tensor {
	op := "ScatterElements"
	if x.b.Opset() < 11 {
		op = "Scatter"
	}
	x.name = x.b.Node(op, []string{x.name, at.name, values.name}, onnx.Attr("axis", 1))
	return x
}

// NotOneHot returns a condition with n columns that is the inverse of a one-hot code. It
// holds in every column except the one with the index x, n×1.
func (x Tensor) NotOneHot(n int) Tensor {
	columns := make([]int64, n)
	for i := range columns {
		columns[i] = int64(i)
	}
	all := x.Constant(columns)
	return all.Less(x).Or(x.Less(all))
}

// Column returns column i and removes the last axis. cols is the size of the axis that is then
// the last.
func (x Tensor) Column(i, cols int) Tensor {
	return Tensor{x.b, x.b.Node("Gather", []string{x.name, x.b.Const(int64(i))}, onnx.Attr("axis", -1)), x.elem, cols}
}

// Columns returns the columns from i to j−1.
func (x Tensor) Columns(i, j int) Tensor {
	if i == 0 && j == x.cols {
		return x
	}
	if x.b.Opset() < 10 {
		return Tensor{x.b, x.b.Node("Slice", []string{x.name}, onnx.Attr("axes", []int64{-1}), onnx.Attr("starts", []int64{int64(i)}), onnx.Attr("ends", []int64{int64(j)})), x.elem, j - i}
	}
	c := func(v int) string { return x.b.Const([]int64{int64(v)}) }
	return Tensor{x.b, x.b.Node("Slice", []string{x.name, c(i), c(j), c(-1)}), x.elem, j - i}
}

// Concat returns x with the columns of others appended.
func (x Tensor) Concat(others ...Tensor) Tensor {
	names := []string{x.name}
	for _, o := range others {
		names = append(names, o.To(x.elem).name)
		x.cols += o.cols
	}
	x.name = x.b.Node("Concat", names, onnx.Attr("axis", -1))
	return x
}

// Reshape returns x in another shape. A size of 0 keeps the size of the axis, and −1 infers
// the size from the number of elements.
func (x Tensor) Reshape(shape ...int64) Tensor {
	last := shape[len(shape)-1]
	if last > 0 {
		x.cols = int(last)
	}
	x.name = x.b.Node("Reshape", []string{x.name, x.b.Const(slices.Clone(shape))})
	return x
}

// Unit scales each row to norm 1, in float64. Rows of zeros stay zero.
func (x Tensor) Unit() Tensor { return x.Double().Div(x.Norm().Max(1e-300)) }

// Normalised scales each row to norm 1, in the element type of x.
func (x Tensor) Normalised() Tensor {
	return Tensor{x.b, x.b.Node("LpNormalization", []string{x.name}, onnx.Attr("axis", -1), onnx.Attr("p", 2)), x.elem, x.cols}
}

// Norm returns the Euclidean norm of each row, in float64.
func (x Tensor) Norm() Tensor { return x.Double().SumSquares().Sqrt() }
