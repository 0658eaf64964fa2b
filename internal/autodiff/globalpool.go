package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

func gradGlobalAveragePool(c *call) {
	x, up := c.in(0), c.up(0)
	n, nok := c.types.of(x).size()
	m, mok := c.types.of(up).size()
	if nok && mok && n > 0 {
		up = c.node("Mul", up, c.scalar(float64(m)/float64(n), x))
	} else {
		up = c.node("Div", up, c.castTo(c.node("Div", c.node("Size", x), c.node("Size", up)), x))
	}
	c.add(0, c.expand(up, x))
}

// gradGlobalMaxPool gives the gradient to the first of the elements that tie.
func gradGlobalMaxPool(c *call) {
	x := c.in(0)
	rows := c.ints(0, 0, -1)
	flat := c.node("Reshape", x, rows)
	first := c.nodeWith("ArgMax", []string{flat}, onnx.Attr("axis", 2))
	up := c.node("Reshape", c.up(0), rows)
	dx := c.nodeWith("ScatterElements", []string{c.fill(0, flat), first, up}, onnx.Attr("axis", 2))
	c.add(0, c.node("Reshape", dx, c.shapeOf(x)))
}

func gradGlobalLpPool(c *call) { c.add(0, c.lpBack(c.expand(c.lpShare(), c.in(0)))) }
