package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradSlice is the rule of Slice. It surrounds the gradient with zeros: by padding if the
// bounds are known, and by scattering otherwise.
func gradSlice(c *call) {
	if c.gradKnownSlice() {
		return
	}
	x := c.input(0)
	inputs := append([]string{c.elementIndices(x)}, c.n.Input[1:]...)
	c.add(0, c.scatterToIndices(x, c.node("Slice", inputs...), c.upstream(0)))
}

// elementIndices returns the index of each element of x: 0, 1, 2, … in the shape of x.
func (c *call) elementIndices(x string) string {
	order := c.node("Range", c.constant(int64(0)), c.node("Size", x), c.constant(int64(1)))
	return c.node("Reshape", order, c.shapeOf(x))
}

// scatterToIndices returns zeros of the shape of x, with the elements of upstream written
// to the given positions. Positions are indices as in elementIndices. Each may occur only
// once, unless attrs contain a reduction.
func (c *call) scatterToIndices(x, positions, upstream string, attrs ...*pb.AttributeProto) string {
	flat := c.ints(-1)
	zeros := c.node("Expand", c.scalar(0, x), c.node("Reshape", c.node("Size", x), c.ints(1)))
	scattered := c.scatter("ScatterElements", zeros, c.node("Reshape", positions, flat), c.node("Reshape", c.beforeReshape(upstream), flat),
		append(attrs, onnx.Attr("axis", 0))...)
	return c.node("Reshape", scattered, c.shapeOf(x))
}

// gradKnownSlice is the rule of Slice if the bounds and the sizes of the sliced axes are
// known. It returns false otherwise.
func (c *call) gradKnownSlice() bool {
	x := c.types.get(c.input(0))
	spans, ok := c.types.sliceSpans(c.n, len(x.dims))
	if !ok || !x.ranked {
		return false
	}
	dims := make([]int64, len(x.dims))
	for i, d := range x.dims {
		dims[i] = d.n
	}
	for _, s := range spans {
		if dims[s.axis] < 0 {
			return false
		}
	}
	c.add(0, c.unslice(c.upstream(0), dims, spans))
	return true
}

// unslice surrounds a slice with zeros, so that it has its original shape again. dims may
// contain −1 for axes that were not sliced.
func (c *call) unslice(upstream string, dims []int64, spans []span) string {
	rank := int64(len(dims))
	pads := make([]int64, 2*rank)
	for _, s := range spans {
		first, count := s.resolve(dims[s.axis])
		step := s.step
		if step < 0 {
			first, step = first+(count-1)*step, -step
			if count > 1 {
				upstream = c.node("Slice", upstream, c.ints(-1), c.ints(-1<<40), c.ints(s.axis), c.ints(-1))
			}
		}
		if count == 0 {
			first = 0
		}
		if step > 1 && count > 0 {
			upstream = c.dilate(upstream, s.axis, step)
			if over := first + count*step - dims[s.axis]; over > 0 {
				upstream = c.node("Slice", upstream, c.ints(0), c.ints(-over), c.ints(s.axis))
				count, step = dims[s.axis]-first, 1
			}
		}
		pads[s.axis], pads[rank+s.axis] = first, dims[s.axis]-first-count*step
	}
	return c.node("Pad", upstream, c.ints(pads...))
}

// resolve returns the first index of the span and the number of elements, for an axis with
// size elements.
func (s span) resolve(size int64) (first, count int64) {
	if s.step > 0 {
		start, end := s.clamp(size)
		return start, max((end-start+s.step-1)/s.step, 0)
	}
	start := min(max(wrapIndex(s.start, size), 0), size-1)
	end := min(max(wrapIndex(s.end, size), -1), size-1)
	return start, max((start-end-s.step-1)/-s.step, 0)
}

// dilate inserts step − 1 zeros after each element along an axis.
func (c *call) dilate(x string, axis, step int64) string {
	rank := int64(len(c.types.get(x).dims))
	pads := make([]int64, 2*(rank+1))
	pads[rank+1+axis+1] = step - 1
	padded := c.node("Pad", c.node("Unsqueeze", x, c.ints(axis+1)), c.ints(pads...))
	factors := make([]int64, rank)
	for i := range factors {
		factors[i] = 1
	}
	factors[axis] = step
	shape, unknowns := slices.Clone(factors), 0
	for i, d := range c.types.get(x).dims {
		if shape[i] *= d.n; !d.known() {
			shape[i] = -1
			unknowns++
		}
	}
	if unknowns < 2 {
		return c.node("Reshape", padded, c.ints(shape...))
	}
	return c.node("Reshape", padded, c.node("Mul", c.node("Shape", x), c.ints(factors...)))
}

// gradScatterElements is the rule of ScatterElements with the reduction "none" or "add".
func gradScatterElements(c *call) {
	reduction := onnx.AttributeString(c.n, "reduction", "none")
	if reduction != "none" && reduction != "add" {
		c.fail("it reduces by %s", reduction)
		return
	}
	axis := onnx.Attr("axis", c.attrInt("axis", 0))
	if c.needsGradient(0) {
		dx := c.upstream(0)
		if reduction == "none" {
			dx = c.nodeWith("ScatterElements", []string{dx, c.input(1), c.fullLike(0, c.input(2))}, axis)
		}
		c.add(0, dx)
	}
	if c.needsGradient(2) {
		c.add(2, c.nodeWith("GatherElements", []string{c.upstream(0), c.input(1)}, axis))
	}
}

func gradGatherElements(c *call) {
	c.add(0, c.scatter("ScatterElements", c.fullLike(0, c.input(0)), c.input(1), c.upstream(0),
		onnx.Attr("axis", c.attrInt("axis", 0)), onnx.Attr("reduction", "add")))
}
