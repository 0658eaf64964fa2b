package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradGather is the rule of Gather. If Gather copied an element several times, the
// gradients of its copies are summed.
func gradGather(c *call) {
	x, upstream := c.input(0), c.upstream(0)
	axis := c.attrInt("axis", 0)
	if c.gradGatherOne(axis) {
		return
	}
	n, ok := c.types.get(c.input(1)).rank()
	if !ok {
		c.fail("the rank of its indices is not known")
		return
	}
	if dx, ok := c.ungather(x, c.input(1), upstream, axis, n); ok {
		c.add(0, dx)
	}
}

// gradGatherOne is the rule of Gather for a single constant index. It pads upstream instead
// of scattering it. It returns false for other indices, and if the rank of the input is
// unknown.
func (c *call) gradGatherOne(axis int64) bool {
	x := c.types.get(c.input(0))
	index, constant := c.types.constInts(c.input(1))
	indexRank, ok := c.types.get(c.input(1)).rank()
	if !ok || !x.ranked || !constant || len(index) != 1 || indexRank > 1 {
		return false
	}
	rank, at := int64(len(x.dims)), index[0]
	axis = wrapIndex(axis, rank)
	upstream := c.upstream(0)
	if indexRank == 0 {
		upstream = c.node("Unsqueeze", upstream, c.ints(axis))
	}
	// pads holds the padding before and after the index. pads[growing] still lacks the size
	// of the axis. If this size is unknown, the graph adds it at run time.
	pads, growing := make([]int64, 2*rank), axis
	if at >= 0 {
		pads[axis], pads[rank+axis], growing = at, -1-at, rank+axis
	} else {
		pads[axis], pads[rank+axis] = at, -1-at
	}
	if d := x.dims[axis]; d.known() {
		pads[growing] += d.n
		c.add(0, c.node("Pad", upstream, c.ints(pads...)))
		return true
	}
	grown := make([]int64, 2*rank)
	grown[growing] = 1
	size := c.node("Gather", c.node("Shape", c.input(0)), c.ints(axis))
	c.add(0, c.node("Pad", upstream, c.node("Add", c.ints(pads...), c.node("Mul", size, c.ints(grown...)))))
	return true
}

// wrapIndex converts an index of an axis with n elements: a negative index counts from the end.
func wrapIndex(i, n int64) int64 {
	if i < 0 {
		return i + n
	}
	return i
}

// ungather returns zeros of the shape of x, to which it adds slices of upstream at indices
// along axis. In upstream, the n axes of indices replace that axis.
func (c *call) ungather(x, indices, upstream string, axis int64, n int) (string, bool) {
	rank, ok := c.types.get(x).rank()
	if !ok {
		c.fail("the rank of %q is not known", x)
		return "", false
	}
	axis = wrapIndex(axis, int64(rank))
	// scatterAdd works on the first axis, so move axis there.
	toFront, fromFront := []int64{axis}, make([]int64, rank)
	for i := range int64(rank) {
		if i != axis {
			toFront = append(toFront, i)
		}
	}
	for i, p := range toFront {
		fromFront[p] = int64(i)
	}
	shape := c.shapeOf(x)
	if axis > 0 {
		var perm []int64
		for i := range n {
			perm = append(perm, axis+int64(i))
		}
		for i := range int64(rank + n - 1) {
			if i < axis || i >= axis+int64(n) {
				perm = append(perm, i)
			}
		}
		upstream = c.nodeWith("Transpose", []string{upstream}, onnx.Attr("perm", perm))
		shape = c.permuted(x, toFront)
	}
	zeros := c.node("Expand", c.scalar(0, x), shape)
	dx := c.scatterAdd(zeros, c.node("Unsqueeze", indices, c.ints(-1)), upstream)
	if axis > 0 {
		dx = c.nodeWith("Transpose", []string{dx}, onnx.Attr("perm", fromFront))
	}
	return dx, true
}

// permuted returns the shape of x with its axes in the order perm.
func (c *call) permuted(x string, perm []int64) string {
	if dims, ok := c.types.get(x).static(); ok {
		out := make([]int64, len(perm))
		for i, p := range perm {
			out[i] = dims[p]
		}
		return c.ints(out...)
	}
	return c.node("Gather", c.node("Shape", x), c.ints(perm...))
}

// gradGatherND is the rule of GatherND. If GatherND copied an element several times, the
// gradients of its copies are summed.
func gradGatherND(c *call) {
	x, indices := c.input(0), c.input(1)
	if batch := c.attrInt("batch_dims", 0); batch > 0 {
		indices = c.prependBatchIndices(indices, batch)
	}
	c.add(0, c.scatterAdd(c.fullLike(0, x), indices, c.upstream(0)))
}

// prependBatchIndices extends each tuple of coordinates in the last axis of indices. It
// prepends the position of the tuple along the first batch axes.
func (c *call) prependBatchIndices(indices string, batch int64) string {
	rank, ok := c.types.get(indices).rank()
	if !ok {
		c.fail("the rank of its indices is not known")
		return indices
	}
	shape := c.node("Shape", indices)
	single := c.nodeWith("Concat", []string{c.node("Slice", shape, c.ints(0), c.ints(-1)), c.ints(1)}, onnx.Attr("axis", 0))
	var parts []string
	for i := range batch {
		size := c.node("Gather", shape, c.constant(i))
		order := c.node("Range", c.constant(int64(0)), size, c.constant(int64(1)))
		var axes []int64
		for j := range int64(rank) {
			if j != i {
				axes = append(axes, j)
			}
		}
		parts = append(parts, c.node("Expand", c.node("Unsqueeze", order, c.ints(axes...)), single))
	}
	return c.nodeWith("Concat", append(parts, indices), onnx.Attr("axis", -1))
}

// gradScatterND is the rule of ScatterND with the reduction "none" or "add". If two updates
// replace the same element, both get its gradient.
func gradScatterND(c *call) {
	reduction := onnx.AttributeString(c.n, "reduction", "none")
	if reduction != "none" && reduction != "add" {
		c.fail("it reduces by %s", reduction)
		return
	}
	if c.needsGradient(0) {
		dx := c.upstream(0)
		if reduction == "none" {
			dx = c.node("ScatterND", dx, c.input(1), c.fullLike(0, c.input(2)))
		}
		c.add(0, dx)
	}
	if c.needsGradient(2) {
		c.add(2, c.node("GatherND", c.upstream(0), c.input(1)))
	}
}

// gradTopK is the rule of TopK. It scatters the gradients of the values to their original
// positions.
func gradTopK(c *call) {
	c.add(0, c.nodeWith("ScatterElements", []string{c.fullLike(0, c.input(0)), c.output(1), c.upstream(0)}, onnx.Attr("axis", c.attrInt("axis", -1))))
}

// scatter appends a ScatterElements or a ScatterND. The runtime's CPU provider cannot add
// in half precision, so sums of half-precision numbers use single precision.
func (g *tape) scatter(op, data, indices, updates string, attrs ...*pb.AttributeProto) string {
	adds := slices.ContainsFunc(attrs, func(a *pb.AttributeProto) bool { return a.GetName() == "reduction" })
	if !adds || !isHalf(g.types.get(updates).elem) {
		return g.nodeWith(op, []string{data, indices, updates}, attrs...)
	}
	sum := g.nodeWith(op, []string{g.toSingle(data), indices, g.toSingle(updates)}, attrs...)
	return g.castTo(sum, updates)
}

// scatterAdd adds updates to data. The last axis of indices holds the coordinates of the
// updates.
func (g *tape) scatterAdd(data, indices, updates string) string {
	return g.scatter("ScatterND", data, indices, updates, onnx.Attr("reduction", "add"))
}

// isHalf reports whether an element type is float16 or bfloat16.
func isHalf(t pb.TensorProto_DataType) bool {
	return t == pb.TensorProto_FLOAT16 || t == pb.TensorProto_BFLOAT16
}

// toSingle converts x from half to single precision. It returns tensors of other types
// unchanged.
func (g *tape) toSingle(x string) string {
	if isHalf(g.types.get(x).elem) {
		return g.castElem(x, pb.TensorProto_FLOAT)
	}
	return x
}
