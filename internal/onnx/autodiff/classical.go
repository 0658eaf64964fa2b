package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradScaler is the rule of Scaler, y = (x − offset)·scale. It computes in single precision
// for every type of x, as the operator does.
func gradScaler(c *call) {
	scale := onnx.Attribute(c.n, "scale").GetFloats()
	if len(scale) == 0 {
		c.fail("it has no scale")
		return
	}
	c.add(0, c.castTo(c.node("Mul", c.upstream(0), c.b.Const(scale, int64(len(scale)))), c.input(0)))
}

// gradNormalizer is the rule of Normalizer, which divides each row of x by its norm. It
// computes in single precision.
func gradNormalizer(c *call) {
	x, y := c.castElem(c.input(0), pb.TensorProto_FLOAT), c.output(0)
	var d string
	switch norm := onnx.AttributeString(c.n, "norm", "MAX"); norm {
	case "L1":
		d = c.lpNormGradient(x, y, 1, -1)
	case "L2":
		d = c.lpNormGradient(x, y, 2, -1)
	case "MAX":
		// The MAX norm divides by the largest number, not by the largest absolute value.
		last := []int64{-1}
		largest := c.reduce("ReduceMax", x, last, true)
		isMax := c.castElem(c.node("Equal", x, largest), pb.TensorProto_FLOAT)
		projection := c.node("Div", c.sum(c.node("Mul", c.upstream(0), y), last, true), c.sum(isMax, last, true))
		d = c.divideOrZero(c.node("Sub", c.upstream(0), c.node("Mul", isMax, projection)), largest)
	default:
		c.fail("its norm is %q", norm)
		return
	}
	c.add(0, c.castTo(d, c.input(0)))
}
