package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradIdentity is the rule of y = x: the gradient does not change.
func gradIdentity(c *call) { c.add(0, c.upstream(0)) }

// gradSum is the rule of Add and Sum.
func gradSum(c *call) {
	for i := range c.n.Input {
		c.addUnbroadcast(i, c.upstream(0))
	}
}

func gradMean(c *call) {
	upstream := c.times(1/float64(len(c.n.Input)), c.upstream(0))
	for i := range c.n.Input {
		c.addUnbroadcast(i, upstream)
	}
}

func gradSub(c *call) {
	c.addUnbroadcast(0, c.upstream(0))
	if c.needsGradient(1) {
		c.add(1, c.node("Neg", c.unbroadcast(c.upstream(0), c.input(1))))
	}
}

func gradMul(c *call) {
	a, b := c.input(0), c.input(1)
	if a == b {
		doubled := c.node("Mul", c.scalar(2, a), a)
		c.add(0, c.node("Mul", c.upstream(0), doubled))
		return
	}
	if c.needsGradient(0) {
		c.addUnbroadcast(0, c.node("Mul", c.upstream(0), b))
	}
	if c.needsGradient(1) {
		c.addUnbroadcast(1, c.node("Mul", c.upstream(0), a))
	}
}

func gradDiv(c *call) {
	b := c.input(1)
	overB := c.node("Div", c.upstream(0), b)
	c.addUnbroadcast(0, overB)
	if c.needsGradient(1) {
		c.addUnbroadcast(1, c.node("Neg", c.node("Mul", overB, c.output(0))))
	}
}

func gradNeg(c *call) { c.add(0, c.node("Neg", c.upstream(0))) }

func gradReciprocal(c *call) {
	y := c.output(0)
	c.add(0, c.node("Neg", c.node("Mul", c.upstream(0), c.node("Mul", y, y))))
}

func gradPow(c *call) {
	x, p := c.input(0), c.input(1)
	if c.needsGradient(0) {
		e := c.castTo(p, x)
		// For an exponent e of 0, xᵉ⁻¹ is infinite at x = 0, although the slope is 0. Use
		// x⁰ instead, because the factor e then makes the slope 0.
		one := c.scalar(1, x)
		lower := c.node("Sub", c.node("Where", c.node("Equal", e, c.scalar(0, x)), one, e), one)
		c.addUnbroadcast(0, c.node("Mul", c.upstream(0), c.node("Mul", e, c.node("Pow", x, lower))))
	}
	if c.needsGradient(1) {
		// The derivative with respect to the exponent p is xᵖ·log x. At x = 0 the logarithm
		// is infinite, so use 0.
		zero := c.scalar(0, x)
		log := c.node("Where", c.node("Equal", x, zero), zero, c.node("Log", x))
		c.addUnbroadcast(1, c.castTo(c.node("Mul", c.upstream(0), c.node("Mul", c.output(0), log)), p))
	}
}

func gradSqrt(c *call) {
	doubled := c.node("Mul", c.scalar(2, c.input(0)), c.output(0))
	c.add(0, c.node("Div", c.upstream(0), doubled))
}

func gradExp(c *call) { c.add(0, c.node("Mul", c.upstream(0), c.output(0))) }

func gradLog(c *call) { c.add(0, c.node("Div", c.upstream(0), c.input(0))) }

func gradAbs(c *call) { c.add(0, c.node("Mul", c.upstream(0), c.node("Sign", c.input(0)))) }

// unbroadcast sums a gradient over the axes along which x was broadcast. The result has the
// shape of x.
func (g *tape) unbroadcast(gradient, x string) string {
	from, to := g.types.get(gradient), g.types.get(x)
	if !from.ranked || !to.ranked || len(from.dims) < len(to.dims) {
		return g.unbroadcastAtRunTime(gradient, x)
	}
	lead := len(from.dims) - len(to.dims)
	var leading, stretched []int64
	for i := range lead {
		leading = append(leading, int64(i))
	}
	for i, d := range to.dims {
		f := from.dims[lead+i]
		switch {
		case d.n == 1 && f.n != 1:
			stretched = append(stretched, int64(i))
		case d.n > 1 || d.n == f.n && d.known() || d.symbol != "" && d.symbol == f.symbol:
		default:
			return g.unbroadcastAtRunTime(gradient, x)
		}
	}
	if leading != nil {
		gradient = g.sum(gradient, leading, false)
	}
	if stretched != nil {
		gradient = g.sum(gradient, stretched, true)
	}
	return gradient
}

// unbroadcastAtRunTime does what unbroadcast does, for unknown shapes. It appends nodes
// that compare the shapes at run time to find the axes.
func (g *tape) unbroadcastAtRunTime(gradient, x string) string {
	from, to := g.node("Shape", gradient), g.shapeOf(x)
	one := g.ints(1)
	lead := g.node("Sub", g.node("Shape", from), g.shapeOf(to))
	padded := g.nodeWith("Concat", []string{g.node("Expand", one, lead), to}, onnx.Attr("axis", 0))
	differs := g.node("Not", g.node("Equal", padded, from))
	axes := g.node("Reshape", g.node("NonZero", differs), g.ints(-1))
	summed := g.nodeWith("ReduceSum", []string{gradient, axes},
		onnx.Attr("keepdims", 1), onnx.Attr("noop_with_empty_axes", 1))
	return g.node("Reshape", summed, to)
}

// gradWhere passes the gradient to the input that Where selected, element by element.
func gradWhere(c *call) {
	zero := c.scalar(0, c.output(0))
	if c.needsGradient(1) {
		c.addUnbroadcast(1, c.node("Where", c.input(0), c.upstream(0), zero))
	}
	if c.needsGradient(2) {
		c.addUnbroadcast(2, c.node("Where", c.input(0), zero, c.upstream(0)))
	}
}

// gradExtremum returns the rule of Max or Min with any number of inputs. compare is
// "GreaterOrEqual" for Max and "LessOrEqual" for Min. Inputs that tie share the gradient
// evenly.
//
// The rule compares the inputs with each other and not with the output, because the runtime
// may skip the rounding to half precision between nodes.
func gradExtremum(compare string) rule {
	return func(c *call) {
		n := len(c.n.Input)
		if n == 1 {
			gradIdentity(c)
			return
		}
		x := make([]string, n)
		for i := range x {
			x[i] = c.toSingle(c.input(i))
		}
		isExtremum := make([]string, n)
		count := ""
		for i := range x {
			for j := range x {
				switch {
				case i == j:
				case isExtremum[i] == "":
					isExtremum[i] = c.node(compare, x[i], x[j])
				default:
					isExtremum[i] = c.node("And", isExtremum[i], c.node(compare, x[i], x[j]))
				}
			}
			isExtremum[i] = c.castTo(isExtremum[i], c.output(0))
			if count == "" {
				count = isExtremum[i]
			} else {
				count = c.node("Add", count, isExtremum[i])
			}
		}
		part := c.node("Div", c.upstream(0), count)
		for i := range x {
			if c.needsGradient(i) {
				c.addUnbroadcast(i, c.node("Mul", part, isExtremum[i]))
			}
		}
	}
}

// gradClip passes the gradient if the input lies within the bounds or equals one of them.
// Gradients with respect to the bounds are not supported.
func gradClip(c *call) {
	if c.needsGradient(1) || c.needsGradient(2) {
		c.fail("its bounds depend on what is differentiated")
		return
	}
	x, low, high := c.input(0), c.input(1), c.input(2)
	inside := ""
	if low != "" {
		inside = c.node("GreaterOrEqual", x, low)
	}
	if high != "" {
		below := c.node("LessOrEqual", x, high)
		if inside == "" {
			inside = below
		} else {
			inside = c.node("And", inside, below)
		}
	}
	if inside == "" {
		gradIdentity(c)
		return
	}
	c.add(0, c.node("Where", inside, c.upstream(0), c.scalar(0, x)))
}
