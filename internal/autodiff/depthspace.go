package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

func gradSpaceToDepth(c *call) {
	c.add(0, c.nodeWith("DepthToSpace", []string{c.up(0)}, onnx.Attr("blocksize", c.attrInt("blocksize", 1))))
}

func gradDepthToSpace(c *call) {
	block := c.attrInt("blocksize", 1)
	dx := c.nodeWith("SpaceToDepth", []string{c.up(0)}, onnx.Attr("blocksize", block))
	if onnx.AttributeString(c.n, "mode", "DCR") == "CRD" {
		// From channels (block, channel) to (channel, block).
		last := c.nodeWith("Transpose", []string{dx}, onnx.Attr("perm", []int64{0, 2, 3, 1}))
		split := c.node("Reshape", last, c.ints(0, 0, 0, block*block, -1))
		dx = c.reshapeLike(c.nodeWith("Transpose", []string{split}, onnx.Attr("perm", []int64{0, 4, 3, 1, 2})), c.in(0))
	}
	c.add(0, dx)
}
