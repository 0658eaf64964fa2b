package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradAveragePool spreads the gradient of each window over its elements. With count_include_pad
// these include padding.
func gradAveragePool(c *call) {
	x, up := c.in(0), c.up(0)
	s, ok := c.pooling()
	if !ok {
		return
	}
	include := c.attrInt("count_include_pad", 0) != 0
	if !s.ceil && s.begin != nil && (include || slices.Max(s.begin) == 0 && slices.Max(s.end) == 0) {
		c.add(0, c.spreadWindows(up, x, s, 1/float64(s.area())))
		return
	}
	c.add(0, c.spreadWindows(c.node("Div", up, c.castTo(c.windowCounts(x, up, s, include), x)), x, s, 1))
}

// pooling returns the geometry of a pooling.
func (c *call) pooling() (geometry, bool) {
	s, ok := c.types.geometryOf(c.n, c.types.of(c.in(0)), nil)
	if !ok {
		c.fail("the size of its window is not known")
		return s, false
	}
	if c.b.Opset() < 22 && s.dropsWindow(c.types.of(c.in(0))) {
		c.fail("its last window would start in the padding, and ONNX before operator set 22 counts it while the runtime leaves it out")
		return s, false
	}
	const most = 1 << 24
	area := int64(1)
	for _, k := range s.kernel {
		if area *= min(max(k, 1), most); area > most {
			c.fail("its window of %v is too large", s.kernel)
			return s, false
		}
	}
	return s, true
}

// windowCounts returns the number of elements in each window, with the shape 1 × 1 × windows.
func (c *call) windowCounts(x, up string, s geometry, include bool) string {
	if counts, dims, ok := s.counts(c.types.of(x), include); ok {
		return c.constant(counts, dims...)
	}
	rank := len(s.kernel) + 2
	one := c.constant(float32(1))
	ones := c.node("Expand", one, c.joined(c.ints(1, 1), c.dimsOf(x, 2, rank)))
	padding := 0.0
	if include {
		padding = 1
	}
	ones, s, _ = c.explicit(ones, s, padding)
	if include && slices.Max(s.begin)+slices.Max(s.end) > 0 {
		pads := slices.Concat([]int64{0, 0}, s.begin, []int64{0, 0}, s.end)
		ones = c.node("Pad", ones, c.ints(pads...), one)
		s.begin, s.end = make([]int64, len(s.kernel)), make([]int64, len(s.kernel))
	}
	if s.ceil {
		s.end = slices.Clone(s.end)
		for i, stride := range s.stride {
			s.end[i] += stride - 1
		}
	}
	window := c.constant(slices.Repeat([]float32{1}, int(s.area())), slices.Concat([]int64{1, 1}, s.kernel)...)
	counts := c.nodeWith("Conv", []string{ones, window}, s.attrs(1)...)
	if s.ceil {
		counts = c.cropTo(counts, c.dimsOf(up, 2, rank), s)
	}
	return counts
}

// counts computes windowCounts for an x of known size.
func (s *geometry) counts(x tensorType, include bool) (counts []float32, dims []int64, ok bool) {
	counts, dims = []float32{1}, []int64{1, 1}
	for i, o := range s.output(x) {
		if !o.known() || s.begin == nil {
			return nil, nil, false
		}
		d, _ := x.dim(int64(i + 2))
		low, high := int64(0), d.n
		if include {
			low, high = -s.begin[i], d.n+s.end[i]
		}
		var next []float32
		for _, rest := range counts {
			for w := range o.n {
				n := 0
				for k := range s.kernel[i] {
					if at := w*s.stride[i] - s.begin[i] + k*s.dilation[i]; at >= low && at < high {
						n++
					}
				}
				next = append(next, rest*float32(n))
			}
		}
		counts, dims = next, append(dims, o.n)
	}
	return counts, dims, true
}

// spreadWindows returns, for each element of x, the sum of the values of the windows that
// contain it, times a factor. It uses only the shape of x.
func (c *call) spreadWindows(up, x string, s geometry, factor float64) string {
	times := func(v float64, t string) string {
		if v == 1 {
			return t
		}
		return c.node("Mul", t, c.scalar(v, t))
	}
	x, s, crop := c.explicit(x, s, 0)
	s.cover(c.types.of(x))
	if pads, ok := s.mirroredPads(); ok && s.unitStride() && slices.Max(s.dilation) == 1 {
		// This is an average over the padded gradient.
		mean := c.nodeWith("AveragePool", []string{up},
			onnx.Attr("kernel_shape", s.kernel), onnx.Attr("pads", pads), onnx.Attr("count_include_pad", 1))
		return times(factor*float64(s.area()), mean)
	}
	// Channels become rows, so that one kernel serves all of them.
	kept := make([]int64, len(s.kernel))
	rows := c.node("Reshape", times(factor, up), c.ints(append([]int64{-1, 1}, kept...)...))
	window := c.constant(slices.Repeat([]float32{1}, int(s.area())), slices.Concat([]int64{1, 1}, s.kernel)...)
	dx := c.convolveBack(rows, c.castTo(window, x), x, s, 1)
	return crop(c.reshapeLike(dx, x))
}

// cover extends the padding so that the last window does not reach beyond it.
func (s *geometry) cover(x tensorType) {
	if !s.ceil {
		return
	}
	s.end = slices.Clone(s.end)
	for i, o := range s.output(x) {
		if d, _ := x.dim(int64(i + 2)); o.known() && d.known() {
			s.end[i] = max(s.end[i], (o.n-1)*s.stride[i]+s.extent(i)-s.begin[i]-d.n)
		}
	}
	s.ceil = false
}

// gradMaxPool adds the gradient of each window to the element with the maximum, the first one
// if several tie.
func gradMaxPool(c *call) {
	x, up := c.in(0), c.up(0)
	s, ok := c.pooling()
	if !ok {
		return
	}
	if c.attrInt("storage_order", 0) != 0 {
		c.fail("it counts places by columns")
		return
	}
	places := c.places()
	// The zeros are computed at run time. A constant shape would be folded to a constant as
	// large as x.
	zeros := c.node("Expand", c.scalar(0, x), c.node("Reshape", c.node("Size", x), c.ints(1)))
	flat, attrs := c.ints(-1), []*pb.AttributeProto{onnx.Attr("axis", 0)}
	if !s.disjoint() {
		attrs = append(attrs, onnx.Attr("reduction", "add"))
	}
	dx := c.scatter("ScatterElements", zeros, c.node("Reshape", places, flat), c.node("Reshape", up, flat), attrs...)
	c.add(0, c.node("Reshape", dx, c.shapeOf(x)))
}

// places returns the indices of the maxima in the flattened input. They are the node's second
// output, which is added if it is missing.
func (c *call) places() string {
	if c.out(1) == "" {
		name := c.b.Fresh("MaxPool")
		c.n.Output = append(c.n.Output[:1:1], name)
		t := c.types.of(c.out(0))
		t.elem = pb.TensorProto_INT64
		c.types.known[name] = t
	}
	return c.out(1)
}

func gradGlobalAveragePool(c *call) {
	x, up := c.in(0), c.up(0)
	n, nok := c.types.of(x).size()
	m, mok := c.types.of(up).size()
	if nok && mok && n > 0 {
		up = c.node("Mul", up, c.scalar(float64(m)/float64(n), x))
	} else {
		up = c.node("Div", up, c.castTo(c.node("Div", c.node("Size", x), c.node("Size", up)), x))
	}
	c.add(0, c.expand(up, x))
}

// gradGlobalMaxPool passes the gradient to the first element with the maximum.
func gradGlobalMaxPool(c *call) {
	x := c.in(0)
	rows := c.ints(0, 0, -1)
	flat := c.node("Reshape", x, rows)
	first := c.nodeWith("ArgMax", []string{flat}, onnx.Attr("axis", 2))
	up := c.node("Reshape", c.up(0), rows)
	dx := c.nodeWith("ScatterElements", []string{c.fill(0, flat), first, up}, onnx.Attr("axis", 2))
	c.add(0, c.node("Reshape", dx, c.shapeOf(x)))
}
