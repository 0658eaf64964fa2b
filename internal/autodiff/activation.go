package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradRelu takes 0 as the derivative at 0, like everyone.
func gradRelu(c *call) {
	// The output is positive exactly where the input is; reading it lets the
	// runtime drop the input.
	y := c.out(0)
	positive := ""
	if c.types.of(y).elem == pb.TensorProto_FLOAT {
		// A steep min(max(αy, 0), 1) is one vectorised pass, ten times as fast
		// as Sign on the CPU. Only denormals fall on the slope.
		positive = c.nodeWith("HardSigmoid", []string{y}, onnx.Attr("alpha", 1e38), onnx.Attr("beta", 0.0))
	} else {
		positive = c.node("Sign", y)
	}
	c.add(0, c.node("Mul", c.up(0), positive))
}

func gradHardSigmoid(c *call) {
	x, y := c.in(0), c.out(0)
	slope := c.scalar(float64(onnx.AttributeFloat(c.n, "alpha", 0.2)), x)
	inside := c.node("And", c.node("Greater", y, c.scalar(0, x)), c.node("Less", y, c.scalar(1, x)))
	c.add(0, c.node("Where", inside, c.node("Mul", c.up(0), slope), c.scalar(0, x)))
}

func gradSigmoid(c *call) {
	y := c.out(0)
	slope := c.node("Mul", y, c.node("Sub", c.scalar(1, y), y))
	c.add(0, c.node("Mul", c.up(0), slope))
}

func gradTanh(c *call) {
	y := c.out(0)
	slope := c.node("Sub", c.scalar(1, y), c.node("Mul", y, y))
	c.add(0, c.node("Mul", c.up(0), slope))
}

func gradSoftplus(c *call) { c.add(0, c.node("Mul", c.up(0), c.node("Sigmoid", c.in(0)))) }
