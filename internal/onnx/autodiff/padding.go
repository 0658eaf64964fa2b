package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradPad is the rule of Pad. It removes the padding from the gradient. In modes that
// repeat elements of x, it adds the gradient of each copy to the gradient of its element.
func gradPad(c *call) {
	if c.needsGradient(2) {
		c.fail("its padding value depends on what is differentiated")
		return
	}
	x, upstream, pads := c.input(0), c.upstream(0), c.input(1)
	if mode := onnx.AttributeString(c.n, "mode", "constant"); mode != "constant" {
		inputs := []string{c.elementIndices(x), pads}
		if c.input(3) != "" {
			inputs = append(inputs, "", c.input(3))
		}
		source := c.nodeWith("Pad", inputs, onnx.Attr("mode", mode))
		c.add(0, c.scatterToIndices(x, source, upstream, onnx.Attr("reduction", "add")))
		return
	}
	v, ok := c.types.constInts(pads)
	switch {
	case ok && !slices.ContainsFunc(v, func(p int64) bool { return p != 0 }):
		gradIdentity(c)
		return
	case ok && c.input(3) == "" && !slices.ContainsFunc(v, func(p int64) bool { return p < 0 }):
		c.add(0, c.unpad(upstream, v))
		return
	}
	inputs := []string{upstream, c.node("Neg", pads)}
	if c.input(3) != "" {
		inputs = append(inputs, "", c.input(3))
	}
	c.add(0, c.node("Pad", inputs...))
}

// unpad removes the padding pads from x. pads must not be negative.
func (c *call) unpad(x string, pads []int64) string {
	var starts, ends, axes []int64
	rank := len(pads) / 2
	for i, before := range pads[:rank] {
		after := pads[rank+i]
		if before == 0 && after == 0 {
			continue
		}
		end := -after
		if after == 0 {
			end = 1 << 40
		}
		starts, ends, axes = append(starts, before), append(ends, end), append(axes, int64(i))
	}
	return c.node("Slice", x, c.ints(starts...), c.ints(ends...), c.ints(axes...))
}

// padExplicitly pads x in the graph if its padding is known only at run time. It returns
// the padded x, a geometry without padding, and a function that removes the padding from
// the gradient. If the padding is already known, it returns x and s unchanged.
func (c *call) padExplicitly(x string, s geometry, value float64) (string, geometry, func(string) string) {
	if s.begin != nil {
		return x, s, func(dx string) string { return dx }
	}
	begin, end := c.samePads(x, s)
	noPadding := c.ints(0, 0)
	padded := c.node("Pad", x, c.concatInts(noPadding, begin, noPadding, end), c.scalar(value, x))
	size := c.shapeRange(x, 2, len(s.kernel)+2)
	s.begin, s.end = make([]int64, len(s.kernel)), make([]int64, len(s.kernel))
	s.autoPad = "NOTSET"
	return padded, s, func(dx string) string {
		return c.node("Slice", dx, begin, c.node("Add", begin, size), c.ints(s.spatialAxes()...))
	}
}

// samePads appends nodes that compute the padding for auto_pad SAME_UPPER or SAME_LOWER at
// run time.
func (c *call) samePads(x string, s geometry) (begin, end string) {
	size := c.shapeRange(x, 2, len(s.kernel)+2)
	stride, extent := c.ints(s.stride...), make([]int64, len(s.kernel))
	round := make([]int64, len(s.kernel))
	for i := range extent {
		extent[i], round[i] = s.extent(i), s.stride[i]-1
	}
	windows := c.node("Div", c.node("Add", size, c.ints(round...)), stride)
	start := c.node("Mul", c.node("Sub", windows, c.ints(1)), stride)
	total := c.node("Max", c.node("Sub", c.node("Add", start, c.ints(extent...)), size), c.ints(0))
	small := c.node("Div", total, c.ints(2))
	large := c.node("Sub", total, small)
	if s.autoPad == "SAME_LOWER" {
		return large, small
	}
	return small, large
}

// shapeRange returns the sizes of the axes from, …, to−1 of x. They are a constant if they
// are known.
func (g *tape) shapeRange(x string, from, to int) string {
	if t := g.types.get(x); t.ranked && to <= len(t.dims) {
		if dims, ok := (tensorType{ranked: true, dims: t.dims[from:to]}).static(); ok {
			return g.ints(dims...)
		}
	}
	return g.node("Slice", g.node("Shape", x), g.ints(int64(from)), g.ints(int64(to)))
}

// concatInts concatenates lists of integers. The result is a constant if all lists are
// constant.
func (g *tape) concatInts(lists ...string) string {
	var all []int64
	for _, l := range lists {
		v, ok := g.types.constInts(l)
		if !ok {
			return g.nodeWith("Concat", lists, onnx.Attr("axis", 0))
		}
		all = slices.Concat(all, v)
	}
	return g.ints(all...)
}
