package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradTile sums over the copies: it views each axis as (copies, size).
func gradTile(c *call) {
	x := c.in(0)
	rank, ok := c.types.of(x).rank()
	if !ok {
		c.fail("the rank of %q is not known", x)
		return
	}
	if rank == 0 {
		gradIdentity(c)
		return
	}
	copies := make([]int64, rank)
	split := make([]int64, 2*rank)
	dims, static := c.types.of(x).static()
	repeats, constant := c.types.intsOf(c.in(1))
	for i := range copies {
		copies[i] = 2 * int64(i)
		if static && constant && len(repeats) == rank {
			split[2*i], split[2*i+1] = repeats[i], dims[i]
		}
	}
	shape := c.ints(split...)
	if !static || !constant {
		column := c.ints(1)
		shape = c.nodeWith("Concat", []string{c.node("Unsqueeze", c.in(1), column), c.node("Unsqueeze", c.shapeOf(x), column)},
			onnx.Attr("axis", 1))
		shape = c.node("Reshape", shape, c.ints(-1))
	}
	c.add(0, c.sum(c.node("Reshape", c.beforeReshape(c.up(0)), shape), copies, false))
}

// gradCumSum sums from the other end.
func gradCumSum(c *call) {
	c.add(0, c.nodeWith("CumSum", []string{c.up(0), c.in(1)},
		onnx.Attr("exclusive", c.attrInt("exclusive", 0)), onnx.Attr("reverse", 1-c.attrInt("reverse", 0))))
}

func gradTrilu(c *call) {
	inputs := append([]string{c.up(0)}, c.n.Input[1:]...)
	c.add(0, c.nodeWith("Trilu", inputs, onnx.Attr("upper", c.attrInt("upper", 1))))
}
