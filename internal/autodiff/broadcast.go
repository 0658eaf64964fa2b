package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// unbroadcast sums a gradient over the axes along which x was broadcast, and
// gives it the shape of x.
func (g *tape) unbroadcast(gradient, x string) string {
	from, to := g.types.of(gradient), g.types.of(x)
	if !from.ranked || !to.ranked || len(from.dims) < len(to.dims) {
		return g.unbroadcastAtRunTime(gradient, x)
	}
	lead := len(from.dims) - len(to.dims)
	var summed, kept []int64
	for i := range lead {
		summed = append(summed, int64(i))
	}
	for i, d := range to.dims {
		f := from.dims[lead+i]
		switch {
		case d.n == 1 && f.n != 1:
			kept = append(kept, int64(i))
		case d.n > 1 || d.n == f.n && d.known() || d.symbol != "" && d.symbol == f.symbol:
		default:
			return g.unbroadcastAtRunTime(gradient, x)
		}
	}
	if summed != nil {
		gradient = g.sum(gradient, summed, false)
	}
	if kept != nil {
		gradient = g.sum(gradient, kept, true)
	}
	return gradient
}

// unbroadcastAtRunTime finds the axes by comparing shapes in the graph.
func (g *tape) unbroadcastAtRunTime(gradient, x string) string {
	from, to := g.node("Shape", gradient), g.shapeOf(x)
	one := g.ints(1)
	lead := g.node("Sub", g.node("Shape", from), g.shapeOf(to))
	padded := g.nodeWith("Concat", []string{g.node("Expand", one, lead), to}, onnx.Attr("axis", 0))
	differs := g.node("Not", g.node("Equal", padded, from))
	axes := g.node("Reshape", g.node("NonZero", differs), g.ints(-1))
	summed := g.nodeWith("ReduceSum", []string{gradient, axes},
		onnx.Attr("keepdims", 1), onnx.Attr("noop_with_empty_axes", 1))
	return g.node("Reshape", summed, to)
}
