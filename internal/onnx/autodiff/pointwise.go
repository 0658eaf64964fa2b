package autodiff

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// slope returns the derivative of a function of one number at x. y is the value of the
// function.
type slope func(c *call, x, y string) string

// pointwiseRule returns the rule of an operator that applies a function with the derivative
// s to each element of its first input.
func pointwiseRule(s slope) rule {
	return func(c *call) { c.add(0, c.node("Mul", c.upstream(0), s(c, c.input(0), c.output(0)))) }
}

// times returns v·x.
func (g *tape) times(v float64, x string) string { return g.node("Mul", x, g.scalar(v, x)) }

// plus returns x + v.
func (g *tape) plus(v float64, x string) string { return g.node("Add", x, g.scalar(v, x)) }

func (g *tape) square(x string) string { return g.node("Mul", x, x) }

// oneMinus returns 1 − x.
func (g *tape) oneMinus(x string) string { return g.node("Sub", g.scalar(1, x), x) }

func (c *call) attrFloat(name string, fallback float64) float64 {
	return float64(onnx.AttributeFloat(c.n, name, float32(fallback)))
}

// wherePositive returns yes if x > 0 and no otherwise. Like PyTorch, it treats 0 as
// negative.
func (g *tape) wherePositive(x, yes, no string) string {
	return g.node("Where", g.node("Greater", x, g.scalar(0, x)), yes, no)
}

// negativeExp returns exp(min(x, 0)). Without the bound, exp would overflow for elements
// that Where does not select, and their second derivative would be 0·∞.
func (g *tape) negativeExp(x string) string {
	return g.node("Exp", g.node("Min", x, g.scalar(0, x)))
}

func slopeErf(c *call, x, _ string) string {
	return c.times(2/math.SqrtPi, c.node("Exp", c.node("Neg", c.square(x))))
}

func slopeElu(c *call, x, _ string) string {
	return c.wherePositive(x, c.scalar(1, x), c.times(c.attrFloat("alpha", 1), c.negativeExp(x)))
}

func slopeSelu(c *call, x, _ string) string {
	alpha, gamma := c.attrFloat("alpha", 1.67326319217681884765625), c.attrFloat("gamma", 1.05070102214813232421875)
	return c.wherePositive(x, c.scalar(gamma, x), c.times(gamma*alpha, c.negativeExp(x)))
}

func slopeCelu(c *call, x, _ string) string {
	return c.negativeExp(c.times(1/c.attrFloat("alpha", 1), x))
}

func slopeLeakyRelu(c *call, x, _ string) string {
	return c.wherePositive(x, c.scalar(1, x), c.scalar(c.attrFloat("alpha", 0.01), x))
}

// slopeHardSwish returns the derivative of x·min(max(x/6 + 1/2, 0), 1).
func slopeHardSwish(c *call, x, _ string) string {
	inner := c.node("Where", c.node("Less", x, c.scalar(3, x)), c.plus(0.5, c.times(1.0/3, x)), c.scalar(1, x))
	return c.node("Where", c.node("Greater", x, c.scalar(-3, x)), inner, c.scalar(0, x))
}

// slopeSwish returns the derivative of x·σ(αx), which is σ + αx·σ·(1 − σ).
func slopeSwish(c *call, x, _ string) string {
	scaled := x
	if alpha := c.attrFloat("alpha", 1); alpha != 1 {
		scaled = c.times(alpha, x)
	}
	s := c.node("Sigmoid", scaled)
	return c.node("Mul", s, c.plus(1, c.node("Mul", scaled, c.oneMinus(s))))
}

func slopeMish(c *call, x, _ string) string {
	t := c.node("Tanh", c.node("Softplus", x))
	return c.node("Add", t, c.node("Mul", c.node("Mul", x, c.node("Sigmoid", x)), c.oneMinus(c.square(t))))
}

func slopeSoftsign(c *call, x, _ string) string {
	return c.node("Reciprocal", c.square(c.plus(1, c.node("Abs", x))))
}

func slopeGelu(c *call, x, _ string) string {
	if onnx.AttributeString(c.n, "approximate", "none") == "tanh" {
		return c.tanhGelu(x)
	}
	return c.erfGelu(x)
}

// erfGelu returns the derivative of x·Φ(x), which is Φ(x) + x·φ(x). Φ and φ are the
// distribution function and the density of the standard normal distribution.
func (c *call) erfGelu(x string) string {
	cdf := c.times(0.5, c.plus(1, c.node("Erf", c.times(math.Sqrt2/2, x))))
	density := c.times(1/math.Sqrt(2*math.Pi), c.node("Exp", c.times(-0.5, c.square(x))))
	return c.node("Add", cdf, c.node("Mul", x, density))
}

// tanhGelu returns the derivative of x·(1 + tanh u)/2 with u = √(2/π)·(x + 0.044715·x³).
func (c *call) tanhGelu(x string) string {
	const k, cubic = 0.7978845608028654, 0.044715
	square := c.square(x)
	t := c.node("Tanh", c.node("Mul", c.times(k, x), c.plus(1, c.times(cubic, square))))
	inner := c.node("Mul", c.times(k, x), c.plus(1, c.times(3*cubic, square)))
	return c.times(0.5, c.node("Add", c.plus(1, t), c.node("Mul", inner, c.oneMinus(c.square(t)))))
}

// gradPRelu is the rule of PRelu, with respect to x and to the slope for negative x, which
// is broadcast.
func gradPRelu(c *call) {
	x, upstream := c.input(0), c.upstream(0)
	if c.needsGradient(0) {
		c.add(0, c.wherePositive(x, upstream, c.node("Mul", upstream, c.input(1))))
	}
	if c.needsGradient(1) {
		c.addUnbroadcast(1, c.node("Mul", upstream, c.node("Min", x, c.scalar(0, x))))
	}
}

// gradRelu is the rule of Relu. As usual, the derivative at 0 is 0.
func gradRelu(c *call) {
	// Read y instead of x, because both are positive for the same elements. This allows the
	// runtime to free x.
	y := c.output(0)
	positive := ""
	if c.types.get(y).elem == pb.TensorProto_FLOAT {
		// min(max(αy, 0), 1) with α = 10³⁸ is 1 if y is positive and 0 otherwise.
		// HardSigmoid computes it in one vectorised pass, ten times as fast as Sign on the
		// CPU. It is inexact only for denormal y.
		positive = c.nodeWith("HardSigmoid", []string{y}, onnx.Attr("alpha", 1e38), onnx.Attr("beta", 0.0))
	} else {
		positive = c.node("Sign", y)
	}
	c.add(0, c.node("Mul", c.upstream(0), positive))
}

func gradHardSigmoid(c *call) {
	x, y := c.input(0), c.output(0)
	slope := c.scalar(float64(onnx.AttributeFloat(c.n, "alpha", 0.2)), x)
	inside := c.node("And", c.node("Greater", y, c.scalar(0, x)), c.node("Less", y, c.scalar(1, x)))
	c.add(0, c.node("Where", inside, c.node("Mul", c.upstream(0), slope), c.scalar(0, x)))
}

func gradSigmoid(c *call) {
	y := c.output(0)
	slope := c.node("Mul", y, c.node("Sub", c.scalar(1, y), y))
	c.add(0, c.node("Mul", c.upstream(0), slope))
}

func gradTanh(c *call) {
	y := c.output(0)
	slope := c.node("Sub", c.scalar(1, y), c.node("Mul", y, y))
	c.add(0, c.node("Mul", c.upstream(0), slope))
}

func gradSoftplus(c *call) { c.add(0, c.node("Mul", c.upstream(0), c.node("Sigmoid", c.input(0)))) }

func slopeSin(c *call, x, _ string) string { return c.node("Cos", x) }

func slopeCos(c *call, x, _ string) string { return c.node("Neg", c.node("Sin", x)) }
