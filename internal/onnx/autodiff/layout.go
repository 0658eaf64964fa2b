package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradReshape is the rule of operators that keep the order of elements: Reshape, Flatten,
// Squeeze and Unsqueeze.
func gradReshape(c *call) { c.add(0, c.reshapeLike(c.upstream(0), c.input(0))) }

func gradTranspose(c *call) {
	perm := onnx.AttributeInts(c.n, "perm")
	if perm == nil {
		c.add(0, c.node("Transpose", c.upstream(0))) // without perm, Transpose reverses the axes, and reversing twice restores them
		return
	}
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	c.add(0, c.nodeWith("Transpose", []string{c.upstream(0)}, onnx.Attr("perm", inverse)))
}

// gradDropout is the rule of Dropout. It is the identity, because Dropout changes x only in
// training mode.
func gradDropout(c *call) {
	if training := c.input(2); training != "" {
		if v, ok := c.types.constInts(training); !ok || len(v) != 1 || v[0] != 0 {
			c.fail("it drops at random, as in training")
			return
		}
	}
	gradIdentity(c)
}

func gradExpand(c *call) { c.addUnbroadcast(0, c.upstream(0)) }

// gradCast is the rule of casts between floating-point types, and from integers that
// represent real numbers. The gradient with respect to such integers may have any
// floating-point type.
func gradCast(c *call) {
	if !c.types.differentiable(c.input(0)) {
		c.add(0, c.upstream(0))
		return
	}
	c.add(0, c.castTo(c.upstream(0), c.input(0)))
}

func gradSpaceToDepth(c *call) {
	c.add(0, c.nodeWith("DepthToSpace", []string{c.upstream(0)}, onnx.Attr("blocksize", c.attrInt("blocksize", 1))))
}

func gradDepthToSpace(c *call) {
	block := c.attrInt("blocksize", 1)
	dx := c.nodeWith("SpaceToDepth", []string{c.upstream(0)}, onnx.Attr("blocksize", block))
	if onnx.AttributeString(c.n, "mode", "DCR") == "CRD" {
		// In CRD mode, the channels of x are ordered (channel, block), but SpaceToDepth
		// returns the order (block, channel).
		last := c.nodeWith("Transpose", []string{dx}, onnx.Attr("perm", []int64{0, 2, 3, 1}))
		split := c.node("Reshape", last, c.ints(0, 0, 0, block*block, -1))
		dx = c.reshapeLike(c.nodeWith("Transpose", []string{split}, onnx.Attr("perm", []int64{0, 4, 3, 1, 2})), c.input(0))
	}
	c.add(0, dx)
}

func gradConcat(c *call) {
	axis := c.attrInt("axis", 0)
	sizes := make([]string, len(c.n.Input))
	static := make([]int64, len(c.n.Input))
	isStatic := true
	for i, x := range c.n.Input {
		d, ok := c.types.get(x).dim(axis)
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
	parts := c.nodeN(len(c.n.Input), "Split", []string{c.upstream(0), split}, onnx.Attr("axis", axis))
	for i := range c.n.Input {
		if c.needsGradient(i) {
			c.add(i, parts[i])
		}
	}
}

// gradSplit concatenates the gradients of the parts. Parts without a gradient contribute
// zeros.
func gradSplit(c *call) {
	parts := make([]string, len(c.n.Output))
	for i, out := range c.n.Output {
		switch {
		case c.upstream(i) != "":
			parts[i] = c.upstream(i)
		case out != "":
			parts[i] = c.fullLike(0, out)
		default:
			c.fail("one of its outputs is left out")
			return
		}
	}
	c.add(0, c.nodeWith("Concat", parts, onnx.Attr("axis", c.attrInt("axis", 0))))
}

// gradTile sums the gradients of all copies. It first splits each axis into two axes
// (copies, size).
func gradTile(c *call) {
	x := c.input(0)
	rank, ok := c.types.get(x).rank()
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
	dims, static := c.types.get(x).static()
	repeats, constant := c.types.constInts(c.input(1))
	for i := range copies {
		copies[i] = 2 * int64(i)
		if static && constant && len(repeats) == rank {
			split[2*i], split[2*i+1] = repeats[i], dims[i]
		}
	}
	shape := c.ints(split...)
	if !static || !constant {
		column := c.ints(1)
		shape = c.nodeWith("Concat", []string{c.node("Unsqueeze", c.input(1), column), c.node("Unsqueeze", c.shapeOf(x), column)},
			onnx.Attr("axis", 1))
		shape = c.node("Reshape", shape, c.ints(-1))
	}
	c.add(0, c.sum(c.node("Reshape", c.beforeReshape(c.upstream(0)), shape), copies, false))
}

// gradCumSum is the rule of CumSum: a cumulative sum in the opposite direction.
func gradCumSum(c *call) {
	c.add(0, c.nodeWith("CumSum", []string{c.upstream(0), c.input(1)},
		onnx.Attr("exclusive", c.attrInt("exclusive", 0)), onnx.Attr("reverse", 1-c.attrInt("reverse", 0))))
}

func gradTrilu(c *call) {
	inputs := append([]string{c.upstream(0)}, c.n.Input[1:]...)
	c.add(0, c.nodeWith("Trilu", inputs, onnx.Attr("upper", c.attrInt("upper", 1))))
}
