package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// gradAveragePool is the rule of AveragePool. It spreads the gradient of each window evenly
// over the elements of the window. With count_include_pad, these elements include padding.
func gradAveragePool(c *call) {
	x, upstream := c.input(0), c.upstream(0)
	s, ok := c.poolGeometry()
	if !ok {
		return
	}
	include := c.attrInt("count_include_pad", 0) != 0
	if !s.ceilMode && s.begin != nil && (include || slices.Max(s.begin) == 0 && slices.Max(s.end) == 0) {
		c.add(0, c.spreadWindows(upstream, x, s, 1/float64(s.area())))
		return
	}
	c.add(0, c.spreadWindows(c.node("Div", upstream, c.castTo(c.windowCounts(x, upstream, s, include), x)), x, s, 1))
}

// poolGeometry returns the geometry of a pooling node.
func (c *call) poolGeometry() (geometry, bool) {
	s, ok := c.types.windowGeometry(c.n, c.types.get(c.input(0)), nil)
	if !ok {
		c.fail("the size of its window is not known")
		return s, false
	}
	if c.b.Opset() < 22 && s.dropsWindow(c.types.get(c.input(0))) {
		c.fail("its last window would start in the padding, and ONNX before operator set 22 counts it while the runtime leaves it out")
		return s, false
	}
	const maxArea = 1 << 24
	area := int64(1)
	for _, k := range s.kernel {
		if area *= min(max(k, 1), maxArea); area > maxArea {
			c.fail("its window of %v is too large", s.kernel)
			return s, false
		}
	}
	return s, true
}

// windowCounts returns the number of elements that AveragePool counts in each window, with
// the shape 1 × 1 × windows. If include is set, padding counts.
func (c *call) windowCounts(x, upstream string, s geometry, include bool) string {
	if counts, dims, ok := s.windowCounts(c.types.get(x), include); ok {
		return c.constant(counts, dims...)
	}
	rank := len(s.kernel) + 2
	one := c.constant(float32(1))
	ones := c.node("Expand", one, c.concatInts(c.ints(1, 1), c.shapeRange(x, 2, rank)))
	padding := 0.0
	if include {
		padding = 1
	}
	ones, s, _ = c.padExplicitly(ones, s, padding)
	if include && slices.Max(s.begin)+slices.Max(s.end) > 0 {
		pads := slices.Concat([]int64{0, 0}, s.begin, []int64{0, 0}, s.end)
		ones = c.node("Pad", ones, c.ints(pads...), one)
		s.begin, s.end = make([]int64, len(s.kernel)), make([]int64, len(s.kernel))
	}
	if s.ceilMode {
		s.end = slices.Clone(s.end)
		for i, stride := range s.stride {
			s.end[i] += stride - 1
		}
	}
	window := c.constant(slices.Repeat([]float32{1}, int(s.area())), slices.Concat([]int64{1, 1}, s.kernel)...)
	counts := c.nodeWith("Conv", []string{ones, window}, s.attributes(1)...)
	if s.ceilMode {
		counts = c.cropTo(counts, c.shapeRange(upstream, 2, rank), s)
	}
	return counts
}

// windowCounts computes the numbers of call.windowCounts in advance if the size of x is
// known.
func (s *geometry) windowCounts(x tensorType, include bool) (counts []float32, dims []int64, ok bool) {
	counts, dims = []float32{1}, []int64{1, 1}
	for i, o := range s.outputSizes(x) {
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

// spreadWindows returns a tensor with the shape of x. Each element is the sum of upstream
// over the windows that contain the element, times factor.
func (c *call) spreadWindows(upstream, x string, s geometry, factor float64) string {
	times := func(v float64, t string) string {
		if v == 1 {
			return t
		}
		return c.node("Mul", t, c.scalar(v, t))
	}
	x, s, crop := c.padExplicitly(x, s, 0)
	s.extendPadding(c.types.get(x))
	if pads, ok := s.mirroredPads(); ok && s.unitStride() && slices.Max(s.dilation) == 1 {
		// The sum over windows is an average of the padded gradient, times the number of
		// elements in a window.
		mean := c.nodeWith("AveragePool", []string{upstream},
			onnx.Attr("kernel_shape", s.kernel), onnx.Attr("pads", pads), onnx.Attr("count_include_pad", 1))
		return times(factor*float64(s.area()), mean)
	}
	// Channels become rows, so that one kernel with a single channel serves them all.
	sameSizes := make([]int64, len(s.kernel))
	rows := c.node("Reshape", times(factor, upstream), c.ints(append([]int64{-1, 1}, sameSizes...)...))
	window := c.constant(slices.Repeat([]float32{1}, int(s.area())), slices.Concat([]int64{1, 1}, s.kernel)...)
	dx := c.convAdjoint(rows, c.castTo(window, x), x, s, 1)
	return crop(c.reshapeLike(dx, x))
}

// extendPadding extends the padding at the end so that it contains all of the last window.
func (s *geometry) extendPadding(x tensorType) {
	if !s.ceilMode {
		return
	}
	s.end = slices.Clone(s.end)
	for i, o := range s.outputSizes(x) {
		if d, _ := x.dim(int64(i + 2)); o.known() && d.known() {
			s.end[i] = max(s.end[i], (o.n-1)*s.stride[i]+s.extent(i)-s.begin[i]-d.n)
		}
	}
	s.ceilMode = false
}

// gradMaxPool is the rule of MaxPool. It adds the gradient of each window to the element
// with the maximum. If several elements tie, the first gets the gradient.
func gradMaxPool(c *call) {
	x, upstream := c.input(0), c.upstream(0)
	s, ok := c.poolGeometry()
	if !ok {
		return
	}
	if c.attrInt("storage_order", 0) != 0 {
		c.fail("it counts places by columns")
		return
	}
	indices := c.maxIndices()
	// Compute the zeros at run time. With a constant shape, the runtime would fold them to
	// a constant as large as x.
	zeros := c.node("Expand", c.scalar(0, x), c.node("Reshape", c.node("Size", x), c.ints(1)))
	flat, attrs := c.ints(-1), []*pb.AttributeProto{onnx.Attr("axis", 0)}
	if !s.disjoint() {
		attrs = append(attrs, onnx.Attr("reduction", "add"))
	}
	dx := c.scatter("ScatterElements", zeros, c.node("Reshape", indices, flat), c.node("Reshape", upstream, flat), attrs...)
	c.add(0, c.node("Reshape", dx, c.shapeOf(x)))
}

// maxIndices returns the indices of the maxima in the flattened input. They are the second
// output of the node. If the node lacks this output, maxIndices adds it.
func (c *call) maxIndices() string {
	if c.output(1) == "" {
		name := c.b.UniqueName("MaxPool")
		c.n.Output = append(c.n.Output[:1:1], name)
		t := c.types.get(c.output(0))
		t.elem = pb.TensorProto_INT64
		c.types.tensorTypes[name] = t
	}
	return c.output(1)
}

func gradGlobalAveragePool(c *call) {
	x, upstream := c.input(0), c.upstream(0)
	n, knownN := c.types.get(x).size()
	m, knownM := c.types.get(upstream).size()
	if knownN && knownM && n > 0 {
		upstream = c.node("Mul", upstream, c.scalar(float64(m)/float64(n), x))
	} else {
		upstream = c.node("Div", upstream, c.castTo(c.node("Div", c.node("Size", x), c.node("Size", upstream)), x))
	}
	c.add(0, c.expand(upstream, x))
}

// gradGlobalMaxPool is the rule of GlobalMaxPool. It passes the gradient to the first
// element with the maximum.
func gradGlobalMaxPool(c *call) {
	x := c.input(0)
	rows := c.ints(0, 0, -1)
	flat := c.node("Reshape", x, rows)
	first := c.nodeWith("ArgMax", []string{flat}, onnx.Attr("axis", 2))
	upstream := c.node("Reshape", c.upstream(0), rows)
	dx := c.nodeWith("ScatterElements", []string{c.fullLike(0, flat), first, upstream}, onnx.Attr("axis", 2))
	c.add(0, c.node("Reshape", dx, c.shapeOf(x)))
}
