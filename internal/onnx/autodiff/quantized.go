package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Quantized models are differentiated with the straight-through estimator, which treats
// rounding as the identity. The gradient with respect to a tensor of integers that
// represents real numbers is therefore floating-point. Outside the range of the integers,
// the gradient is 0.
//
// DynamicQuantizeLinear computes its scale and zero point from the data. Both count as
// constants, because dequantizing undoes their effect on the integers.
//
// Bengio, Léonard and Courville describe the estimator in Estimating or Propagating
// Gradients Through Stochastic Neurons, arXiv:1308.3432, 2013.

// makesIntegers lists the operators whose first output always consists of integers that
// represent real numbers.
var makesIntegers = map[string]bool{
	"ConvInteger": true, "DynamicQuantizeLinear": true, "MatMulInteger": true, "QuantizeLinear": true,
}

// takesIntegers lists the operators whose rules accept integers that represent real
// numbers.
var takesIntegers = map[string]bool{
	"Cast": true, "Concat": true, "ConvInteger": true, "DequantizeLinear": true, "Flatten": true, "Identity": true,
	"MatMulInteger": true, "Reshape": true, "Squeeze": true, "Transpose": true, "Unsqueeze": true,
}

// carriesGradient reports whether an output of a node carries a gradient to an active input
// of the node.
func (g *tape) carriesGradient(n *pb.NodeProto, output int, active map[string]bool) bool {
	switch {
	case n.Output[output] == "":
		return false
	case n.GetOpType() == "DynamicQuantizeLinear":
		return output == 0
	case n.GetOpType() == "CastLike" && !active[n.Input[0]]: // input 1 only selects the type
		return false
	case g.types.differentiable(n.Output[output]) || makesIntegers[n.GetOpType()]:
		return true
	}
	// Outputs that are computed from quantized integers carry a gradient too. This makes
	// Gradient report unsupported operators instead of skipping them.
	return g.hasActiveIntegers(n, active)
}

// hasActiveIntegers reports whether a node has an active input that is not floating-point.
func (g *tape) hasActiveIntegers(n *pb.NodeProto, active map[string]bool) bool {
	for _, in := range n.Input {
		if active[in] && !g.types.differentiable(in) {
			return true
		}
	}
	return false
}

func gradQuantizeLinear(c *call) {
	scale, ok := c.quantizationScale()
	if !ok {
		return
	}
	low, high, ok := integerRange(c.types.get(c.output(0)).elem)
	if !ok {
		c.fail("it quantizes to %s", c.types.get(c.output(0)).elem)
		return
	}
	x := c.input(0)
	scale = c.castTo(scale, x)
	rounded := c.node("Round", c.node("Div", x, scale))
	if c.input(2) != "" {
		zero, _ := c.broadcastAlongAxis(c.castTo(c.input(2), x))
		rounded = c.node("Add", rounded, zero)
	}
	inside := c.node("And", c.node("GreaterOrEqual", rounded, c.scalar(low, x)), c.node("LessOrEqual", rounded, c.scalar(high, x)))
	c.add(0, c.node("Where", inside, c.node("Div", c.castTo(c.upstream(0), x), scale), c.scalar(0, x)))
}

func gradDequantizeLinear(c *call) {
	if scale, ok := c.quantizationScale(); ok {
		c.add(0, c.node("Mul", c.upstream(0), c.castTo(scale, c.upstream(0))))
	}
}

// gradDynamicQuantizeLinear divides the gradient by the scale, output 1. It needs no
// bounds, because the range of the integers covers all values.
func gradDynamicQuantizeLinear(c *call) { c.add(0, c.node("Div", c.upstream(0), c.output(1))) }

// quantizationScale returns the scale of the node in a shape that broadcasts to the input.
func (c *call) quantizationScale() (string, bool) {
	if c.needsGradient(1) || c.needsGradient(2) {
		c.fail("its scale or zero point depends on what is differentiated")
		return "", false
	}
	return c.broadcastAlongAxis(c.input(1))
}

// broadcastAlongAxis makes a vector broadcast to the input, by adding axes of size 1. The
// vector has one number for each element along the node's axis.
func (c *call) broadcastAlongAxis(v string) (string, bool) {
	t := c.types.get(v)
	if size, ok := t.size(); ok && size == 1 || t.ranked && len(t.dims) == 0 {
		return v, true
	}
	rank, ok := c.types.get(c.input(0)).rank()
	if !ok || !t.ranked || len(t.dims) > 1 {
		c.fail("its scale is neither a number nor one along an axis")
		return v, false
	}
	axis := int(wrapIndex(c.attrInt("axis", 1), int64(rank)))
	if axis >= rank-1 {
		return v, true
	}
	return c.node("Unsqueeze", v, c.ints(axisRange(1, rank-axis)...)), true
}

// integerRange returns the smallest and largest value of an integer type of 8 or 16 bits.
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

// dequantize returns q − zero in the element type of like, which names a tensor. These are
// the real numbers that q represents, in units of the scale.
func (c *call) dequantize(q, zero, like string) string {
	real := c.castTo(q, like)
	if zero == "" {
		return real
	}
	if v, ok := c.types.constInts(zero); ok && len(v) == 1 && v[0] == 0 {
		return real
	}
	return c.node("Sub", real, c.castTo(zero, like))
}

func gradMatMulInteger(c *call) {
	if c.needsGradient(2) || c.needsGradient(3) {
		c.fail("its zero point depends on what is differentiated")
		return
	}
	if t := c.types.get(c.input(2)); c.input(2) != "" && len(t.dims) > 0 && t.dims[0].n != 1 {
		c.fail("its first factor has a zero point for each row")
		return
	}
	left, right, upstream := c.input(0), c.input(1), c.upstream(0) // addProduct needs the shapes of both
	if c.needsGradient(0) {
		right = c.dequantize(right, c.input(3), upstream)
	}
	if c.needsGradient(1) {
		left = c.dequantize(left, c.input(2), upstream)
	}
	c.addProduct(left, right, upstream)
}

func gradConvInteger(c *call) {
	if c.needsGradient(1) {
		c.fail("its kernel depends on what is differentiated")
		return
	}
	upstream := c.upstream(0)
	kernel := c.dequantize(c.input(1), c.broadcastAlongRows(c.input(3), c.input(1)), upstream)
	s, ok := c.convGeometry(kernel, c.types.get(c.input(0)))
	switch {
	case !ok:
	case s.begin == nil:
		c.fail("its padding depends on sizes that are not known")
	default:
		c.add(0, c.convAdjoint(upstream, kernel, c.input(0), s, c.attrInt("group", 1)))
	}
}

// broadcastAlongRows makes a vector broadcast to w, by adding axes of size 1. The vector
// has one number for each row of w.
func (c *call) broadcastAlongRows(v, w string) string {
	t, rank := c.types.get(v), len(c.types.get(w).dims)
	if len(t.dims) != 1 || t.dims[0].n == 1 {
		return v
	}
	return c.node("Unsqueeze", v, c.ints(axisRange(1, rank)...))
}
