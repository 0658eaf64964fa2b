package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func gradConcat(c *call) {
	axis := c.attrInt("axis", 0)
	sizes := make([]string, len(c.n.Input))
	static := make([]int64, len(c.n.Input))
	isStatic := true
	for i, x := range c.n.Input {
		d, ok := c.types.of(x).dim(axis)
		isStatic = isStatic && ok && d.known()
		static[i] = d.n
	}
	var split string
	if isStatic {
		split = c.ints(static...)
	} else {
		for i, x := range c.n.Input {
			sizes[i] = c.nodeWith("Gather", []string{c.node("Shape", x), c.ints(axis)})
		}
		split = c.nodeWith("Concat", sizes, onnx.Attr("axis", 0))
	}
	parts := c.split(c.up(0), split, axis, len(c.n.Input))
	for i := range c.n.Input {
		if c.wants(i) {
			c.add(i, parts[i])
		}
	}
}

func (g *tape) split(x, sizes string, axis int64, n int) []string {
	outputs := make([]string, n)
	for i := range outputs {
		outputs[i] = g.b.Fresh("Split")
	}
	g.b.Append(onnx.Node{Op: "Split", Inputs: []string{x, sizes}, Outputs: outputs,
		Attrs: []*pb.AttributeProto{onnx.Attr("axis", axis)}})
	g.types.advance()
	return outputs
}

// gradSplit joins the gradients of the parts; a part that nothing depends on
// counts as zeros.
func gradSplit(c *call) {
	parts := make([]string, len(c.n.Output))
	for i, out := range c.n.Output {
		switch {
		case c.up(i) != "":
			parts[i] = c.up(i)
		case out != "":
			parts[i] = c.fill(0, out)
		default:
			c.fail("one of its outputs is left out")
			return
		}
	}
	c.add(0, c.nodeWith("Concat", parts, onnx.Attr("axis", c.attrInt("axis", 0))))
}
