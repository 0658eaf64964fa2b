package autodiff

import (
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// rule computes the vector–Jacobian product of an operator. It reads the gradients of a
// node's outputs and adds to the gradients of its inputs. For unsupported cases it calls
// call.fail.
type rule func(c *call)

// call is the application of a rule to one node.
type call struct {
	*tape
	n      *pb.NodeProto
	active map[string]bool
	err    error
}

// unsupported returns an UnsupportedError for the node.
func (c *call) unsupported(reason string) error {
	domain := c.n.GetDomain()
	if onnx.IsDefault(domain) {
		domain = ""
	}
	return &UnsupportedError{Op: c.n.GetOpType(), Domain: domain, Node: c.index.NodeName(c.n), Reason: reason}
}

// fail records that the node cannot be differentiated. Only the first reason is kept.
func (c *call) fail(format string, args ...any) {
	if c.err == nil {
		c.err = c.unsupported(fmt.Sprintf(format, args...))
	}
}

// input returns the name of input i, or "" if the node omits it.
func (c *call) input(i int) string {
	if i < len(c.n.Input) {
		return c.n.Input[i]
	}
	return ""
}

// output returns the name of output i, or "" if the node omits it.
func (c *call) output(i int) string {
	if i < len(c.n.Output) {
		return c.n.Output[i]
	}
	return ""
}

// needsGradient reports whether input i needs a gradient.
func (c *call) needsGradient(i int) bool { return c.active[c.input(i)] }

// upstream returns the gradient with respect to output i, or "" if the result does not
// depend on that output.
func (c *call) upstream(i int) string {
	if o := c.output(i); o != "" {
		return c.grads[o]
	}
	return ""
}

// add adds to the gradient of input i. The gradient must have the shape of the input.
func (c *call) add(i int, gradient string) { c.accumulate(c.input(i), gradient) }

// addUnbroadcast adds to the gradient of input i, if the input needs one. The gradient has
// the shape to which the input was broadcast.
func (c *call) addUnbroadcast(i int, gradient string) {
	if c.needsGradient(i) {
		c.add(i, c.unbroadcast(gradient, c.input(i)))
	}
}

// checkOnlyFirstOutput reports whether only output 0 has a gradient. If a later output has
// one, it calls fail.
func (c *call) checkOnlyFirstOutput() bool {
	for i := 1; i < len(c.n.Output); i++ {
		if c.upstream(i) != "" {
			c.fail("its output %d is differentiated", i)
			return false
		}
	}
	return c.upstream(0) != ""
}

func (c *call) attrInt(name string, fallback int64) int64 {
	return onnx.AttributeInt(c.n, name, fallback)
}

// node appends a node of the default domain and returns the name of its output.
func (g *tape) node(op string, inputs ...string) string { return g.nodeWith(op, inputs) }

// nodeWith appends a node with attributes and returns the name of its output.
func (g *tape) nodeWith(op string, inputs []string, attrs ...*pb.AttributeProto) string {
	out := g.b.Node(op, inputs, attrs...)
	g.types.advance()
	return out
}

// nodeN appends a node with n outputs and returns their names.
func (g *tape) nodeN(n int, op string, inputs []string, attrs ...*pb.AttributeProto) []string {
	out := g.b.NodeN(n, op, inputs, attrs...)
	g.types.advance()
	return out
}

// scalar returns the constant v in the element type of like, which names a tensor.
func (g *tape) scalar(v float64, like string) string {
	switch t := g.types.get(like).elem; t {
	case pb.TensorProto_DOUBLE:
		return g.constant(v)
	case pb.TensorProto_FLOAT:
		return g.constant(float32(v))
	case pb.TensorProto_UNDEFINED:
		return g.node("CastLike", g.constant(float32(v)), like)
	default:
		return g.nodeWith("Cast", []string{g.constant(float32(v))}, onnx.Attr("to", t))
	}
}

func (g *tape) constant(value any, dims ...int64) string {
	name := g.b.Const(value, dims...)
	g.types.constant(name, onnx.Tensor(value, dims...))
	return name
}

// ints returns a constant 1-D int64 tensor.
func (g *tape) ints(v ...int64) string {
	if v == nil {
		v = []int64{}
	}
	return g.constant(v)
}

// castTo converts x to the element type of like, which names a tensor.
func (g *tape) castTo(x, like string) string {
	t := g.types.get(like).elem
	switch {
	case t == pb.TensorProto_UNDEFINED:
		return g.node("CastLike", x, like)
	case t == g.types.get(x).elem:
		return x
	}
	return g.castElem(x, t)
}

func (g *tape) castElem(x string, t pb.TensorProto_DataType) string {
	return g.nodeWith("Cast", []string{x}, onnx.Attr("to", t))
}

// shapeOf returns the shape of x as a 1-D int64 tensor. It is a constant if the shape is
// known.
func (g *tape) shapeOf(x string) string {
	if dims, ok := g.types.get(x).static(); ok {
		return g.ints(dims...)
	}
	return g.node("Shape", x)
}

// onesLike returns a tensor of ones with the shape and element type of x.
func (g *tape) onesLike(x string) string { return g.fullLike(1, x) }

// fullLike returns a tensor filled with v, with the shape and element type of x.
func (g *tape) fullLike(v float64, x string) string {
	return g.expand(g.scalar(v, x), x)
}

// expand broadcasts v to the shape of x.
func (g *tape) expand(v, x string) string {
	a, knownA := g.types.get(v).static()
	b, knownB := g.types.get(x).static()
	if knownA && knownB && slices.Equal(a, b) {
		return v
	}
	return g.node("Expand", v, g.expandShape(v, x))
}

// reshapeLike reshapes v to the shape of x. Both have the same number of elements.
func (g *tape) reshapeLike(v, x string) string {
	a, knownA := g.types.get(v).static()
	b, knownB := g.types.get(x).static()
	if knownA && knownB && slices.Equal(a, b) {
		return v
	}
	out := g.node("Reshape", g.beforeReshape(v), g.reshapeShape(x))
	t := g.types.get(x)
	g.types.tensorTypes[out] = t.withElem(g.types.get(v).elem)
	return out
}

// expandShape returns a shape with which Expand broadcasts v to the shape of x. If v
// already has the right size along an axis, that size may still be unknown. The shape then
// contains 1, which keeps the size of v.
func (g *tape) expandShape(v, x string) string {
	from, to := g.types.get(v), g.types.get(x)
	shape := make([]int64, len(to.dims))
	for i, d := range to.dims {
		at := i + len(from.dims) - len(to.dims)
		switch {
		case d.known():
			shape[i] = d.n
		case from.ranked && at >= 0 && d.symbol != "" && from.dims[at] == d:
			shape[i] = 1
		default:
			return g.shapeOf(x)
		}
	}
	if !to.ranked {
		return g.shapeOf(x)
	}
	return g.ints(shape...)
}

// reshapeShape returns the shape of x as an input for Reshape. If exactly one size is
// unknown, the shape contains −1 in its place, so that Reshape computes this size.
func (g *tape) reshapeShape(x string) string {
	t := g.types.get(x)
	shape, unknowns := make([]int64, len(t.dims)), 0
	for i, d := range t.dims {
		shape[i] = d.n
		if !d.known() {
			shape[i] = -1
			unknowns++
		}
		if d.n == 0 {
			unknowns += 2
		}
	}
	if !t.ranked || unknowns > 1 {
		return g.shapeOf(x)
	}
	return g.ints(shape...)
}

// beforeReshape returns the tensor from which v was reshaped, or v if it was not reshaped.
// It avoids chains of Reshape nodes. If the shapes are computed at run time but the last
// one is known beforehand, such chains crash the optimizer of ONNX Runtime 1.30.
func (g *tape) beforeReshape(v string) string {
	for g.types.reshapeInput[v] != "" {
		v = g.types.reshapeInput[v]
	}
	return v
}

// sum returns the sum of x over axes. If keep is set, the axes keep the size 1. Otherwise
// they are removed.
func (g *tape) sum(x string, axes []int64, keep bool) string {
	return g.nodeWith("ReduceSum", []string{x, g.ints(axes...)}, onnx.Attr("keepdims", keep))
}

// reduce appends ReduceMax, ReduceMean, ReduceL2 or a similar operator over constant axes,
// or over all axes if axes is nil. From operator set 18, the axes are an input of the node.
// In earlier sets they are an attribute.
func (g *tape) reduce(op, x string, axes []int64, keep bool) string {
	if op == "ReduceSum" && axes != nil {
		return g.sum(x, axes, keep)
	}
	attrs := []*pb.AttributeProto{onnx.Attr("keepdims", keep)}
	inputs := []string{x}
	switch {
	case axes == nil:
	case g.b.Opset() >= 18:
		inputs = append(inputs, g.ints(axes...))
	default:
		attrs = append(attrs, onnx.Attr("axes", axes))
	}
	return g.nodeWith(op, inputs, attrs...)
}

// transpose swaps the last two axes of x.
func (c *call) transpose(x string) string {
	rank, ok := c.types.get(x).rank()
	if !ok || rank < 2 {
		c.fail("the rank of %q is not known", x)
		return x
	}
	perm := axisRange(0, rank)
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return c.nodeWith("Transpose", []string{x}, onnx.Attr("perm", perm))
}

// axisRange returns the numbers from, from+1, …, to−1.
func axisRange(from, to int) []int64 {
	var numbers []int64
	for i := from; i < to; i++ {
		numbers = append(numbers, int64(i))
	}
	return numbers
}
