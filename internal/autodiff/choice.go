package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradWhere passes the gradient to the side that was chosen.
func gradWhere(c *call) {
	zero := c.scalar(0, c.out(0))
	if c.wants(1) {
		c.addSummed(1, c.node("Where", c.in(0), c.up(0), zero))
	}
	if c.wants(2) {
		c.addSummed(2, c.node("Where", c.in(0), zero, c.up(0)))
	}
}

// gradExtremum is that of Max ("GreaterOrEqual") and Min ("LessOrEqual") of any
// number of inputs. Inputs that tie share the gradient evenly.
//
// The inputs are compared with each other: the runtime leaves out roundings to
// half precision between nodes, so that none need be equal to the output.
func gradExtremum(beats string) rule {
	return func(c *call) {
		n := len(c.n.Input)
		if n == 1 {
			gradIdentity(c)
			return
		}
		x := make([]string, n)
		for i := range x {
			x[i] = c.single(c.in(i))
		}
		hit := make([]string, n)
		count := ""
		for i := range x {
			for j := range x {
				switch {
				case i == j:
				case hit[i] == "":
					hit[i] = c.node(beats, x[i], x[j])
				default:
					hit[i] = c.node("And", hit[i], c.node(beats, x[i], x[j]))
				}
			}
			hit[i] = c.castTo(hit[i], c.out(0))
			if count == "" {
				count = hit[i]
			} else {
				count = c.node("Add", count, hit[i])
			}
		}
		share := c.node("Div", c.up(0), count)
		for i := range x {
			if c.wants(i) {
				c.addSummed(i, c.node("Mul", share, hit[i]))
			}
		}
	}
}

// gradClip passes the gradient where the input lies within the bounds,
// inclusively. Bounds that are themselves differentiated are not supported.
func gradClip(c *call) {
	if c.wants(1) || c.wants(2) {
		c.fail("its bounds depend on what is differentiated")
		return
	}
	x, low, high := c.in(0), c.in(1), c.in(2)
	if a := onnx.Attribute(c.n, "min"); a != nil {
		low = c.scalar(float64(a.GetF()), x)
	}
	if a := onnx.Attribute(c.n, "max"); a != nil {
		high = c.scalar(float64(a.GetF()), x)
	}
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
	c.add(0, c.node("Where", inside, c.up(0), c.scalar(0, x)))
}
