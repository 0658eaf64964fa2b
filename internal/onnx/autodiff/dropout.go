package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx/pb"

// gradDropout is the identity in inference. In training it is
// mask/(1 − ratio); the node is given its second output, the mask, where it
// lacks it.
func gradDropout(c *call) {
	training := c.in(2)
	v, constant := c.types.intsOf(training)
	if training == "" || constant && len(v) == 1 && v[0] == 0 {
		gradIdentity(c)
		return
	}
	up := c.up(0)
	mask := c.castTo(c.maskOutput(), up)
	ratio := c.scalar(0.5, up)
	if c.in(1) != "" {
		ratio = c.castTo(c.in(1), up)
	}
	scale := c.node("Reciprocal", c.below1(ratio))
	if !constant {
		scale = c.node("Where", training, scale, c.scalar(1, up))
	}
	c.add(0, c.node("Mul", up, c.node("Mul", mask, scale)))
}

func (c *call) maskOutput() string {
	for len(c.n.Output) < 2 {
		c.n.Output = append(c.n.Output, "")
	}
	if c.n.Output[1] == "" {
		c.n.Output[1] = c.b.Fresh("mask")
		c.types.known[c.n.Output[1]] = c.types.of(c.in(0)).as(pb.TensorProto_BOOL)
	}
	return c.n.Output[1]
}
