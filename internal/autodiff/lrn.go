package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradLRN is that of y = x·d^−β with d = bias + α/size·Σ x² over a window of
// channels: dx = up·d^−β − 2αβ/size·x·Σ′(up·y/d), where the window of Σ′ is
// the mirrored one.
func gradLRN(c *call) {
	x, y, up := c.in(0), c.out(0), c.up(0)
	rank, ok := c.types.of(x).rank()
	if !ok {
		c.fail("the rank of %q is not known", x)
		return
	}
	size := c.attrInt("size", 1)
	alpha, beta := c.attrFloat("alpha", 1e-4), c.attrFloat("beta", 0.75)
	before, after := (size-1)/2, size/2
	d := c.plus(c.attrFloat("bias", 1), c.times(alpha/float64(size), c.window(c.square(x), rank, before, after)))
	direct := c.node("Mul", up, c.node("Pow", d, c.scalar(-beta, x)))
	others := c.window(c.node("Div", c.node("Mul", up, y), d), rank, after, before)
	c.add(0, c.node("Sub", direct, c.times(2*alpha*beta/float64(size), c.node("Mul", x, others))))
}

// window sums x over the channels from before to after each.
func (c *call) window(x string, rank int, before, after int64) string {
	if before+after == 0 {
		return x
	}
	pads := make([]int64, 2*rank)
	pads[1], pads[rank+1] = before, after
	padded := c.node("Pad", x, c.ints(pads...))
	channel := c.ints(1)
	var shifted []string
	for i := range before + after + 1 {
		end := i - before - after
		if end == 0 {
			end = 1 << 40
		}
		shifted = append(shifted, c.node("Slice", padded, c.ints(i), c.ints(end), channel))
	}
	return c.node("Sum", shifted...)
}

// gradLpNormalization is that of y = x/‖x‖: (up − n·Σ up·y)/‖x‖, where n is y
// or, for p = 1, its sign. It is 0 where the norm is, and so is y.
func gradLpNormalization(c *call) {
	x, y, up := c.in(0), c.out(0), c.up(0)
	axis := []int64{c.attrInt("axis", -1)}
	op, normal := "ReduceL2", y
	switch p := c.attrInt("p", 2); p {
	case 1:
		op, normal = "ReduceL1", c.node("Sign", x)
	case 2:
	default:
		c.fail("its p is %d", p)
		return
	}
	norm := c.reduce(op, x, axis, true)
	along := c.node("Mul", normal, c.sum(c.node("Mul", up, y), axis, true))
	c.add(0, c.overNonzero(c.node("Sub", up, along), norm))
}

// overNonzero is a/b, and 0 where b is 0.
func (g *tape) overNonzero(a, b string) string {
	zero := g.scalar(0, b)
	none := g.node("Equal", b, zero)
	return g.node("Where", none, zero, g.node("Div", a, g.node("Where", none, g.scalar(1, b), b)))
}

func (c *call) attrInts(name string) []int64 { return onnx.AttributeInts(c.n, name) }
