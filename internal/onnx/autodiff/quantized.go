package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Quantized models are differentiated with the straight-through estimator: rounding counts as
// the identity. A tensor of integers that represents real numbers therefore has a
// floating-point gradient with respect to these integers. A scale or zero point that the
// runtime computes from the data (DynamicQuantizeLinear) is treated as constant, because its
// effect on the integers is undone when they become real numbers again. Beyond the integers'
// range the gradient is 0.
//
// See Bengio, Léonard, Courville, Estimating or Propagating Gradients Through Stochastic
// Neurons, arXiv:1308.3432, 2013.

// makesIntegers lists the operators that output integers which represent real numbers.
var makesIntegers = map[string]bool{
	"ConvInteger": true, "DynamicQuantizeLinear": true, "MatMulInteger": true, "QuantizeLinear": true,
}

// takesIntegers lists the operators whose rules support such integers as inputs.
var takesIntegers = map[string]bool{
	"Cast": true, "Concat": true, "ConvInteger": true, "DequantizeLinear": true, "Flatten": true, "Identity": true,
	"MatMulInteger": true, "Reshape": true, "Squeeze": true, "Transpose": true, "Unsqueeze": true,
}

// carries reports whether an output of a node with an active input is active.
func (g *tape) carries(n *pb.NodeProto, output int, active map[string]bool) bool {
	switch {
	case n.Output[output] == "":
		return false
	case n.GetOpType() == "DynamicQuantizeLinear":
		return output == 0
	case n.GetOpType() == "CastLike" && !active[n.Input[0]]: // the other input only selects the type
		return false
	case g.types.differentiable(n.Output[output]) || makesIntegers[n.GetOpType()]:
		return true
	}
	// Other results of such integers carry a gradient too, so that unsupported operators are
	// reported.
	return g.onIntegers(n, active)
}

func (g *tape) onIntegers(n *pb.NodeProto, active map[string]bool) bool {
	for _, in := range n.Input {
		if active[in] && !g.types.differentiable(in) {
			return true
		}
	}
	return false
}

func gradQuantizeLinear(c *call) {
	scale, ok := c.quantization()
	if !ok {
		return
	}
	low, high, ok := integerRange(c.types.of(c.out(0)).elem)
	if !ok {
		c.fail("it quantizes to %s", c.types.of(c.out(0)).elem)
		return
	}
	x := c.in(0)
	scale = c.castTo(scale, x)
	rounded := c.node("Round", c.node("Div", x, scale))
	if c.in(2) != "" {
		zero, _ := c.perAxis(c.castTo(c.in(2), x))
		rounded = c.node("Add", rounded, zero)
	}
	inside := c.node("And", c.node("GreaterOrEqual", rounded, c.scalar(low, x)), c.node("LessOrEqual", rounded, c.scalar(high, x)))
	c.add(0, c.node("Where", inside, c.node("Div", c.castTo(c.up(0), x), scale), c.scalar(0, x)))
}

func gradDequantizeLinear(c *call) {
	if scale, ok := c.quantization(); ok {
		c.add(0, c.node("Mul", c.up(0), c.castTo(scale, c.up(0))))
	}
}

// gradDynamicQuantizeLinear needs no bounds, because the range covers all values.
func gradDynamicQuantizeLinear(c *call) { c.add(0, c.node("Div", c.up(0), c.out(1))) }

// quantization returns the scale in a shape that broadcasts.
func (c *call) quantization() (string, bool) {
	if c.wants(1) || c.wants(2) {
		c.fail("its scale or zero point depends on what is differentiated")
		return "", false
	}
	return c.perAxis(c.in(1))
}

// perAxis appends axes to a vector that belongs to the axis of the node.
func (c *call) perAxis(v string) (string, bool) {
	t := c.types.of(v)
	if size, ok := t.size(); ok && size == 1 || t.ranked && len(t.dims) == 0 {
		return v, true
	}
	rank, ok := c.types.of(c.in(0)).rank()
	if !ok || !t.ranked || len(t.dims) > 1 {
		c.fail("its scale is neither a number nor one along an axis")
		return v, false
	}
	axis := int(wrap(c.attrInt("axis", 1), int64(rank)))
	if axis >= rank-1 {
		return v, true
	}
	return c.node("Unsqueeze", v, c.ints(count(1, rank-axis)...)), true
}

func integerRange(t pb.TensorProto_DataType) (low, high float64, ok bool) {
	switch t {
	case pb.TensorProto_UINT8:
		return 0, 255, true
	case pb.TensorProto_INT8:
		return -128, 127, true
	case pb.TensorProto_UINT16:
		return 0, 65535, true
	case pb.TensorProto_INT16:
		return -32768, 32767, true
	}
	return 0, 0, false
}

// dequantized returns the real numbers that integers represent, in units of the scale, in the
// type of like.
func (c *call) dequantized(q, zero, like string) string {
	real := c.castTo(q, like)
	if zero == "" {
		return real
	}
	if v, ok := c.types.intsOf(zero); ok && len(v) == 1 && v[0] == 0 {
		return real
	}
	return c.node("Sub", real, c.castTo(zero, like))
}

func gradMatMulInteger(c *call) {
	if c.wants(2) || c.wants(3) {
		c.fail("its zero point depends on what is differentiated")
		return
	}
	if t := c.types.of(c.in(2)); c.in(2) != "" && len(t.dims) > 0 && t.dims[0].n != 1 {
		c.fail("its first factor has a zero point for each row")
		return
	}
	left, right, up := c.in(0), c.in(1), c.up(0) // their shapes are read in any case
	if c.wants(0) {
		right = c.dequantized(right, c.in(3), up)
	}
	if c.wants(1) {
		left = c.dequantized(left, c.in(2), up)
	}
	c.addProduct(left, right, up)
}

func gradConvInteger(c *call) {
	if c.wants(1) {
		c.fail("its kernel depends on what is differentiated")
		return
	}
	up := c.up(0)
	kernel := c.dequantized(c.in(1), c.alongRows(c.in(3), c.in(1)), up)
	s, ok := c.convolution(kernel, c.types.of(c.in(0)))
	switch {
	case !ok:
	case s.begin == nil:
		c.fail("its padding depends on sizes that are not known")
	default:
		c.add(0, c.convolveBack(up, kernel, c.in(0), s, c.attrInt("group", 1)))
	}
}

// alongRows reshapes a vector with one number per row of w to the rank of w.
func (c *call) alongRows(v, w string) string {
	t, rank := c.types.of(v), len(c.types.of(w).dims)
	if len(t.dims) != 1 || t.dims[0].n == 1 {
		return v
	}
	return c.node("Unsqueeze", v, c.ints(count(1, rank)...))
}
