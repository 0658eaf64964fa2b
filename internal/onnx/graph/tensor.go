package graph

import (
	"fmt"
	"slices"
	"sort"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Tensor is a tensor of a graph. Its methods append nodes to the graph and return
// what they make. Reductions and products are along the last axis. Operands are
// tensors of the same graph, numbers (float64) or rows of them ([]float64,
// []float32), broadcast as ONNX does; of two types the larger is computed in, and
// constants take the tensor's. Methods panic for operands that do not fit.
type Tensor struct {
	b    *onnx.Builder
	name string
	elem pb.TensorProto_DataType
	cols int // of the last axis
}

// Of is a tensor of b's graph, of elements of a type and so many columns.
func Of(b *onnx.Builder, name string, elem pb.TensorProto_DataType, cols int) Tensor {
	return Tensor{b, name, elem, cols}
}

// Columned is x, known to have so many columns.
func (x Tensor) Columned(n int) Tensor {
	x.cols = n
	return x
}

// Named is x, made by the node that was appended last, under a name of the caller's
// choice, made unique.
func (x Tensor) Named(name string) Tensor {
	x.name = x.b.Rename(x.name, name)
	return x
}

// Name is its name in the graph.
func (x Tensor) Name() string { return x.name }

// Cols is the size of the last axis.
func (x Tensor) Cols() int { return x.cols }

func (x Tensor) node(op string, inputs ...string) Tensor {
	return Tensor{x.b, x.b.Node(op, inputs), x.elem, x.cols}
}

// To is x with elements of another type.
func (x Tensor) To(elem pb.TensorProto_DataType) Tensor {
	if x.elem == elem {
		return x
	}
	return Tensor{x.b, x.b.Node("Cast", []string{x.name}, onnx.Attr("to", elem)), elem, x.cols}
}

// Double is x as float64, Single as float32.
func (x Tensor) Double() Tensor { return x.To(pb.TensorProto_DOUBLE) }

// Single is x as float32.
func (x Tensor) Single() Tensor { return x.To(pb.TensorProto_FLOAT) }

// Constant is a matrix in the graph of x: a rows.Matrix or blas32.General or
// blas64.General, of its own precision, or a list of numbers ([]float64,
// []float32, []int64, []int32), of a shape or as a vector.
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
		return x.constant(packed(v.Data, v.Rows, v.Cols, v.Stride), v.Rows, v.Cols)
	case blas64.General:
		return x.constant(packed(v.Data, v.Rows, v.Cols, v.Stride), v.Rows, v.Cols)
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

// Numbers is Constant of numbers with the type of x.
func (x Tensor) Numbers(v []float64, shape ...int) Tensor {
	if x.elem == pb.TensorProto_DOUBLE {
		return x.constant(v, shape...)
	}
	return x.constant(single(v), shape...)
}

func single(v []float64) []float32 {
	s := make([]float32, len(v))
	for i, f := range v {
		s[i] = float32(f)
	}
	return s
}

func packed[T any](data []T, n, cols, stride int) []T {
	if stride == cols {
		return data[:n*cols]
	}
	var all []T
	for i := range n {
		all = append(all, data[i*stride:i*stride+cols]...)
	}
	return all
}

// constant makes no two of what is small.
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

// Compact is a large matrix in float32, and a small one as it is: for products
// whose rounding is then no more than a millionth of their rows.
func Compact(m blas64.General) any {
	if m.Rows*m.Cols <= 1<<16 {
		return m
	}
	data := packed(m.Data, m.Rows, m.Cols, m.Stride)
	single := blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols, Data: make([]float32, len(data))}
	for i, v := range data {
		single.Data[i] = float32(v)
	}
	return single
}

// operands are x and v of one type.
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

func (x Tensor) with(op string, v any) Tensor {
	a, b := x.operands(v)
	if a.cols != b.cols && a.cols != 1 && b.cols != 1 {
		panic(fmt.Sprintf("graph: %s of %d and %d columns", op, a.cols, b.cols))
	}
	out := a.node(op, a.name, b.name)
	out.cols = max(a.cols, b.cols)
	return out
}

// Add is x + v.
func (x Tensor) Add(v any) Tensor { return x.with("Add", v) }

// Sub is x − v.
func (x Tensor) Sub(v any) Tensor { return x.with("Sub", v) }

// Mul is x · v, element by element.
func (x Tensor) Mul(v any) Tensor { return x.with("Mul", v) }

// Div is x / v.
func (x Tensor) Div(v any) Tensor { return x.with("Div", v) }

// Pow is x to the power of v.
func (x Tensor) Pow(v any) Tensor { return x.with("Pow", v) }

// Max is the larger of x and v.
func (x Tensor) Max(v any) Tensor { return x.with("Max", v) }

// Min is the smaller of x and v.
func (x Tensor) Min(v any) Tensor { return x.with("Min", v) }

// Less is whether x < v, which NaN is not: what Choose takes.
func (x Tensor) Less(v any) Tensor {
	c := x.with("Less", v)
	c.elem = pb.TensorProto_BOOL
	return c
}

// Not is where c, as Less has it, does not hold.
func (c Tensor) Not() Tensor { return c.node("Not", c.name) }

// Or is where c or v, as Less has them, hold.
func (c Tensor) Or(v Tensor) Tensor { return c.with("Or", v) }

// Choose is a where c, as Less has it, holds, and else b.
func (c Tensor) Choose(a Tensor, b any) Tensor {
	p, q := a.operands(b)
	out := p.node("Where", c.name, p.name, q.name)
	out.cols = max(c.cols, p.cols, q.cols)
	return out
}

// Count is in how many columns c, as Less has it, holds, of which there are cols in
// the axis before: what Look takes. The last axis goes.
func (c Tensor) Count(cols int) Tensor {
	return c.To(pb.TensorProto_INT32).Reduce("ReduceSum", -1, cols)
}

// Exp is eˣ.
func (x Tensor) Exp() Tensor { return x.node("Exp", x.name) }

// Log is the natural logarithm.
func (x Tensor) Log() Tensor { return x.node("Log", x.name) }

// Sqrt is the square root.
func (x Tensor) Sqrt() Tensor { return x.node("Sqrt", x.name) }

// Cos is the cosine.
func (x Tensor) Cos() Tensor { return x.node("Cos", x.name) }

// Abs is what x is without its sign.
func (x Tensor) Abs() Tensor { return x.node("Abs", x.name) }

// Sign is −1, 0 or 1.
func (x Tensor) Sign() Tensor { return x.node("Sign", x.name) }

// Floor is the largest whole number that is not above x.
func (x Tensor) Floor() Tensor { return x.node("Floor", x.name) }

// IsNaN is whether x, of float32, is NaN.
func (x Tensor) IsNaN() Tensor {
	x = x.node("IsNaN", x.name)
	x.elem = pb.TensorProto_BOOL
	return x
}

// CumSum is the sum of the columns before each.
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

// Reciprocal is 1/x.
func (x Tensor) Reciprocal() Tensor { return x.node("Reciprocal", x.name) }

// Neg is −x.
func (x Tensor) Neg() Tensor { return x.node("Neg", x.name) }

// Sigmoid is 1/(1 + e⁻ˣ).
func (x Tensor) Sigmoid() Tensor { return x.node("Sigmoid", x.name) }

// Relu is the larger of x and 0.
func (x Tensor) Relu() Tensor { return x.node("Relu", x.name) }

// Square is x².
func (x Tensor) Square() Tensor { return x.node("Mul", x.name, x.name) }

// Log1p is log(1 + x), precise where x is small.
func (x Tensor) Log1p() Tensor {
	whole := x.Add(1.)
	off := whole.Sub(1.) // what of x was not rounded away, as log(whole) has it
	return off.Square().Neg().Less(0.).Choose(whole.Log().Mul(x.Div(off)), x)
}

// reduce reduces the last axis to 1.
func (x Tensor) reduce(op string) Tensor { return x.over(op, -1, 1, 1) }

// Reduce is x without an axis, of which an operator such as ReduceMin makes one
// number. Then cols is the size of the last axis.
func (x Tensor) Reduce(op string, axis, cols int) Tensor { return x.over(op, axis, 0, cols) }

// over keeps the axis, of size 1, if keep is 1. Operator set 18 made the axes an
// input, that of sums 13.
func (x Tensor) over(op string, axis, keep, cols int) Tensor {
	axes, inputs, attrs := []int64{int64(axis)}, []string{x.name}, []*pb.AttributeProto{onnx.Attr("keepdims", keep)}
	if opset := x.b.Opset(); opset >= 18 || opset >= 13 && op == "ReduceSum" {
		inputs = append(inputs, x.b.Const(axes))
	} else {
		attrs = append(attrs, onnx.Attr("axes", axes))
	}
	return Tensor{x.b, x.b.Node(op, inputs, attrs...), x.elem, cols}
}

// Sum is the sum along the last axis, which stays, of size 1.
func (x Tensor) Sum() Tensor { return x.reduce("ReduceSum") }

// Mean is the mean along it.
func (x Tensor) Mean() Tensor { return x.reduce("ReduceMean") }

// RowMax is the largest along it.
func (x Tensor) RowMax() Tensor { return x.reduce("ReduceMax") }

// RowMin is the smallest along it.
func (x Tensor) RowMin() Tensor { return x.reduce("ReduceMin") }

// SumSquares is the sum of squares along it.
func (x Tensor) SumSquares() Tensor { return x.reduce("ReduceSumSquare") }

// LogSumExp is log Σ eˣ along it.
func (x Tensor) LogSumExp() Tensor { return x.reduce("ReduceLogSumExp") }

// Softmax is eˣ / Σ eˣ along it, of matrices.
func (x Tensor) Softmax() Tensor {
	x.name = x.b.Node("Softmax", []string{x.name}, onnx.Attr("axis", 1))
	return x
}

// ArgMax is where the largest along it is, the first of equals: what Rows and
// Look take.
func (x Tensor) ArgMax() Tensor { return x.arg("ArgMax") }

// ArgMin is where the smallest is.
func (x Tensor) ArgMin() Tensor { return x.arg("ArgMin") }

func (x Tensor) arg(op string) Tensor {
	return Tensor{x.b, x.b.Node(op, []string{x.name}, onnx.Attr("axis", -1)), pb.TensorProto_INT64, 1}
}

// Top are the k largest along the last axis, largest first, and where they are.
func (x Tensor) Top(k int) (values, at Tensor) {
	inputs, attrs := []string{x.name}, []*pb.AttributeProto{onnx.Attr("axis", -1)}
	if x.b.Opset() < 10 {
		attrs = append(attrs, onnx.Attr("k", k))
	} else {
		inputs = append(inputs, x.b.Const([]int64{int64(k)}))
	}
	out := x.b.NodeN(2, "TopK", inputs, attrs...)
	return Tensor{x.b, out[0], x.elem, k}, Tensor{x.b, out[1], pb.TensorProto_INT64, k}
}

// Sorted are rows in rising order.
func (x Tensor) Sorted() Tensor {
	values, _ := x.Least(x.cols)
	return values
}

// Interpolate reads quantiles at levels from rows of quantiles at the levels of
// grid: linear between these, constant outside.
func (x Tensor) Interpolate(grid, levels []float64) Tensor {
	low, high, share := make([]int64, len(levels)), make([]int64, len(levels)), make([]float64, len(levels))
	for i, l := range levels {
		j := sort.SearchFloat64s(grid, l)
		switch {
		case j == len(grid):
			j--
			low[i] = int64(j)
		case j == 0 || grid[j] == l:
			low[i] = int64(j)
		default:
			low[i], share[i] = int64(j-1), (l-grid[j-1])/(grid[j]-grid[j-1])
		}
		high[i] = int64(j)
	}
	if slices.Equal(low, high) {
		return x.Pick(low)
	}
	at, next := x.Pick(low).Double(), x.Pick(high)
	return at.Add(next.Double().Sub(at).Mul(share)).To(x.elem)
}

// Pick are the columns with these numbers.
func (x Tensor) Pick(columns []int64) Tensor {
	return Tensor{x.b, x.b.Node("Gather", []string{x.name, x.Constant(columns).name}, onnx.Attr("axis", -1)), x.elem, len(columns)}
}

// Stack are n×k matrices as n×matrices×k.
func Stack(all []Tensor) Tensor {
	var names []string
	for _, x := range all {
		names = append(names, x.Reshape(-1, 1, int64(x.cols)).name)
	}
	x := all[0]
	x.name = x.b.Node("Concat", names, onnx.Attr("axis", 1))
	return x
}

// Least are the k smallest, smallest first, and where they are.
func (x Tensor) Least(k int) (values, at Tensor) {
	values, at = x.Neg().Top(k)
	return values.Neg(), at
}

// MatMul is the product x·w with a matrix, as Constant takes one or a tensor,
// in the precision of w.
func (x Tensor) MatMul(w any) Tensor {
	m := x.matrix(w)
	out := x.To(m.elem).node("MatMul", x.To(m.elem).name, m.name)
	out.cols = m.cols
	return out
}

// Affine is factor·x·wᵀ + c for a matrix w, as MatMul takes one, in the precision of
// w, and a row c of numbers.
func (x Tensor) Affine(factor float64, w any, c []float64) Tensor {
	m := x.matrix(w)
	x = x.To(m.elem)
	_, row := x.operands(c)
	return Tensor{x.b, x.b.Node("Gemm", []string{x.name, m.name, row.name}, onnx.Attr("alpha", factor), onnx.Attr("transB", 1)), m.elem, row.cols}
}

// MulAdd is x·w + c for matrices, w as MatMul takes one and in its precision.
func (x Tensor) MulAdd(w any, c Tensor) Tensor {
	m := x.matrix(w)
	return Tensor{x.b, x.b.Node("Gemm", []string{x.To(m.elem).name, m.name, c.To(m.elem).name}), m.elem, m.cols}
}

// Marked is x, n×1, or NaN in the rows in which a matrix is not finite.
func (x Tensor) Marked(of Tensor) Tensor {
	return of.MulAdd(of.Constant(make([]float64, of.cols), of.cols, 1), x)
}

// MatMulT is the product x·wᵀ of matrices. w has n rows.
func (x Tensor) MatMulT(w any, n int) Tensor {
	m := x.matrix(w)
	if m.cols != x.cols {
		panic(fmt.Sprintf("graph: a product of %d and %d columns", x.cols, m.cols))
	}
	x = x.To(m.elem)
	inputs := []string{x.name, m.name}
	if x.b.Opset() < 11 {
		_, zero := x.operands([]float64{0}) // which became optional
		inputs = append(inputs, zero.name)
	}
	return Tensor{x.b, x.b.Node("Gemm", inputs, onnx.Attr("transB", 1)), m.elem, n}
}

func (x Tensor) matrix(w any) Tensor {
	if m, ok := w.(Tensor); ok {
		return m
	}
	return x.Constant(w)
}

// Rows are the rows of a matrix, as MatMul takes one, that x, n×1, says.
func (x Tensor) Rows(w any) Tensor {
	m := x.matrix(w)
	return Tensor{x.b, x.b.Node("Gather", []string{m.name, x.Reshape(-1).name}), m.elem, m.cols}
}

// RowNumbers are the numbers of x's rows from 0, n×1.
func (x Tensor) RowNumbers() Tensor {
	places := x.b.Node("NonZero", []string{x.Columns(0, 1).Mul(0.).Add(1.).name}) // 2×n
	first := Tensor{x.b, x.b.Node("Gather", []string{places, x.b.Const(int64(0))}), pb.TensorProto_INT64, 1}
	return first.Reshape(-1, 1)
}

// Look is what a vector, as Constant takes one or a tensor, holds where x says.
func (x Tensor) Look(table any) Tensor {
	t := x.matrix(table)
	return Tensor{x.b, x.b.Node("Gather", []string{t.name, x.name}), t.elem, x.cols}
}

// Scatter is x, a matrix, with values in the columns that at says, as Top has them.
func (x Tensor) Scatter(values, at Tensor) Tensor {
	op := "ScatterElements"
	if x.b.Opset() < 11 {
		op = "Scatter"
	}
	x.name = x.b.Node(op, []string{x.name, at.name, values.name}, onnx.Attr("axis", 1))
	return x
}

// Others is where, of n columns, those are that x, n×1, does not say: what Choose
// takes.
func (x Tensor) Others(n int) Tensor {
	columns := make([]int64, n)
	for i := range columns {
		columns[i] = int64(i)
	}
	all := x.Constant(columns)
	return all.Less(x).Or(x.Less(all))
}

// Columns are the columns from i up to j.
func (x Tensor) Columns(i, j int) Tensor {
	if x.b.Opset() < 10 {
		return Tensor{x.b, x.b.Node("Slice", []string{x.name}, onnx.Attr("axes", []int64{-1}), onnx.Attr("starts", []int64{int64(i)}), onnx.Attr("ends", []int64{int64(j)})), x.elem, j - i}
	}
	c := func(v int) string { return x.b.Const([]int64{int64(v)}) }
	return Tensor{x.b, x.b.Node("Slice", []string{x.name, c(i), c(j), c(-1)}), x.elem, j - i}
}

// Concat are x and others side by side.
func (x Tensor) Concat(others ...Tensor) Tensor {
	names := []string{x.name}
	for _, o := range others {
		names = append(names, o.To(x.elem).name)
		x.cols += o.cols
	}
	x.name = x.b.Node("Concat", names, onnx.Attr("axis", -1))
	return x
}

// Reshape is x in another shape: 0 stands for the size that is there, −1 for what
// is left.
func (x Tensor) Reshape(shape ...int64) Tensor {
	last := shape[len(shape)-1]
	if last > 0 {
		x.cols = int(last)
	}
	x.name = x.b.Node("Reshape", []string{x.name, x.b.Const(slices.Clone(shape))})
	return x
}

// Unit are rows scaled to norm 1, in float64; rows of zeros stay zero.
func (x Tensor) Unit() Tensor { return x.Double().Div(x.Norm().Max(1e-300)) }

// Normalised is x scaled as Unit does, in float32 throughout.
func (x Tensor) Normalised() Tensor {
	return Tensor{x.b, x.b.Node("LpNormalization", []string{x.name}, onnx.Attr("axis", -1), onnx.Attr("p", 2)), x.elem, x.cols}
}

// Norm is the Euclidean norm of rows, in float64.
func (x Tensor) Norm() Tensor { return x.Double().SumSquares().Sqrt() }
