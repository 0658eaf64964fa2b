package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradMaxPool adds the gradient of each window to the element that the runtime
// took the maximum from, the first of those that tie.
func gradMaxPool(c *call) {
	x, up := c.in(0), c.up(0)
	s, ok := c.types.geometryOf(c.n, c.types.of(x), nil)
	if !ok {
		c.fail("the size of its window is not known")
		return
	}
	places := c.places()
	// Zeros of a computed number are made when the graph runs; a constant shape
	// would be folded to a constant as large as x.
	zeros := c.node("Expand", c.scalar(0, x), c.node("Reshape", c.node("Size", x), c.ints(1)))
	scatter := func(places, up string, attrs ...*pb.AttributeProto) string {
		flat := c.ints(-1)
		return c.scatter("ScatterElements", zeros, c.node("Reshape", places, flat), c.node("Reshape", up, flat),
			append(attrs, onnx.Attr("axis", 0))...)
	}
	dx := ""
	switch {
	case s.disjoint():
		dx = scatter(places, up)
	case c.b.Opset() >= 16:
		dx = scatter(places, up, onnx.Attr("reduction", "add"))
	default:
		// Before operator set 16 a scatter can't add: every eth window along
		// each axis is disjoint from each other.
		every := make([]int64, len(s.kernel))
		for i, stride := range s.stride {
			every[i] = (s.extent(i) + stride - 1) / stride
		}
		for _, first := range onnx.Places(every) {
			part := func(t string) string {
				return c.node("Slice", t, c.ints(first...), c.ints(slices.Repeat([]int64{1 << 40}, len(first))...),
					c.ints(s.spatialAxes()...), c.ints(every...))
			}
			d := scatter(part(places), part(up))
			if dx != "" {
				d = c.node("Add", dx, d)
			}
			dx = d
		}
	}
	c.add(0, c.node("Reshape", dx, c.shapeOf(x)))
}

// places are the indices into the flattened input that the maxima come from,
// the node's second output. It is added to a node that lacks it; where the
// node is another graph's, or counts by columns, they are computed again.
func (c *call) places() string {
	if c.index.Model.GetGraph() != c.b.Graph() || c.attrInt("storage_order", 0) != 0 {
		attrs := slices.DeleteFunc(slices.Clone(c.n.Attribute), func(a *pb.AttributeProto) bool { return a.GetName() == "storage_order" })
		return c.nodeN(2, "MaxPool", c.n.Input[:1], attrs...)[1]
	}
	if c.out(1) == "" {
		name := c.b.Fresh("MaxPool")
		c.n.Output = append(c.n.Output[:1:1], name)
		t := c.types.of(c.out(0))
		t.elem = pb.TensorProto_INT64
		c.types.known[name] = t
	}
	return c.out(1)
}
