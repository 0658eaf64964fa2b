package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// explicit replaces padding that depends on sizes known at run time only: it
// returns a padded x, whose geometry has no padding, and the inverse for its
// gradient. Where the padding is known, x is as it was.
func (c *call) explicit(x string, s geometry, value float64) (string, geometry, func(string) string) {
	if s.begin != nil {
		return x, s, func(dx string) string { return dx }
	}
	begin, end := c.samePads(x, s)
	none := c.ints(0, 0)
	padded := c.node("Pad", x, c.joined(none, begin, none, end), c.scalar(value, x))
	size := c.dimsOf(x, 2, len(s.kernel)+2)
	s.begin, s.end = make([]int64, len(s.kernel)), make([]int64, len(s.kernel))
	s.padding = "NOTSET"
	return padded, s, func(dx string) string {
		return c.node("Slice", dx, begin, c.node("Add", begin, size), c.ints(s.spatialAxes()...))
	}
}

// samePads computes the padding of SAME_UPPER or SAME_LOWER in the graph.
func (c *call) samePads(x string, s geometry) (begin, end string) {
	size := c.dimsOf(x, 2, len(s.kernel)+2)
	stride, extent := c.ints(s.stride...), make([]int64, len(s.kernel))
	round := make([]int64, len(s.kernel))
	for i := range extent {
		extent[i], round[i] = s.extent(i), s.stride[i]-1
	}
	before := c.node("Div", c.node("Add", size, c.ints(round...)), stride)
	start := c.node("Mul", c.node("Sub", before, c.ints(1)), stride)
	total := c.node("Max", c.node("Sub", c.node("Add", start, c.ints(extent...)), size), c.ints(0))
	small := c.node("Div", total, c.ints(2))
	large := c.node("Sub", total, small)
	if s.padding == "SAME_LOWER" {
		return large, small
	}
	return small, large
}

// dimsOf is the shape of x from one axis up to another, a constant if possible.
func (g *tape) dimsOf(x string, from, to int) string {
	if t := g.types.of(x); t.ranked && to <= len(t.dims) {
		if dims, ok := (tensorType{ranked: true, dims: t.dims[from:to]}).static(); ok {
			return g.ints(dims...)
		}
	}
	return g.node("Slice", g.node("Shape", x), g.ints(int64(from)), g.ints(int64(to)))
}

// joined puts lists of integers behind each other, a constant if all are.
func (g *tape) joined(lists ...string) string {
	var all []int64
	for _, l := range lists {
		v, ok := g.types.intsOf(l)
		if !ok {
			return g.nodeWith("Concat", lists, onnx.Attr("axis", 0))
		}
		all = slices.Concat(all, v)
	}
	return g.ints(all...)
}
