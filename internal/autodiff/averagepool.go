package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradAveragePool spreads the gradient of each window over its elements, of
// which padding is some if count_include_pad says so.
func gradAveragePool(c *call) {
	x, up := c.in(0), c.up(0)
	s, ok := c.types.geometryOf(c.n, c.types.of(x), nil)
	if !ok {
		c.fail("the size of its window is not known")
		return
	}
	include := c.attrInt("count_include_pad", 0) != 0
	if !s.ceil && s.begin != nil && (include || slices.Max(s.begin) == 0 && slices.Max(s.end) == 0) {
		c.add(0, c.spreadWindows(up, x, s, 1/float64(s.area())))
		return
	}
	c.add(0, c.spreadWindows(c.node("Div", up, c.castTo(c.windowCounts(x, up, s, include), x)), x, s, 1))
}

// windowCounts is the number of elements in each window, of the shape
// 1 × 1 × windows.
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

// counts is windowCounts of an x of known size.
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

// spreadWindows gives each element of x, of which only the shape is read, the
// sum of what the windows that it lies in have, times a factor.
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
		// An average over the padded gradient, that is.
		mean := c.nodeWith("AveragePool", []string{up},
			onnx.Attr("kernel_shape", s.kernel), onnx.Attr("pads", pads), onnx.Attr("count_include_pad", 1))
		return times(factor*float64(s.area()), mean)
	}
	// Channels take part as rows, so that one kernel serves all of them.
	kept := make([]int64, len(s.kernel))
	rows := c.node("Reshape", times(factor, up), c.ints(append([]int64{-1, 1}, kept...)...))
	window := c.constant(slices.Repeat([]float32{1}, int(s.area())), slices.Concat([]int64{1, 1}, s.kernel)...)
	dx := c.convolveBack(rows, c.castTo(window, x), x, s, 1)
	return crop(c.reshapeLike(dx, x))
}

// cover pads so far that a last window does not reach beyond the padding.
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
