package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradReshape is that of every operator that keeps the elements in order:
// Reshape, Flatten, Squeeze, Unsqueeze.
func gradReshape(c *call) { c.add(0, c.reshapeLike(c.up(0), c.in(0))) }

func gradTranspose(c *call) {
	perm := onnx.AttributeInts(c.n, "perm")
	if perm == nil {
		c.add(0, c.node("Transpose", c.up(0))) // reversal undoes itself
		return
	}
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	c.add(0, c.nodeWith("Transpose", []string{c.up(0)}, onnx.Attr("perm", inverse)))
}

func gradExpand(c *call) { c.addSummed(0, c.up(0)) }

// gradCast is that of a change between floating-point types, or from integers
// that stand for real numbers, whose gradient is of any floating-point type.
func gradCast(c *call) {
	if !c.types.differentiable(c.in(0)) {
		c.add(0, c.up(0))
		return
	}
	c.add(0, c.castTo(c.up(0), c.in(0)))
}
