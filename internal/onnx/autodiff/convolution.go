package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradConv is the rule of Conv, for any number of spatial axes and of groups, and with
// strides, dilations and padding. It fails if the rank of the kernel is unknown, or if
// auto_pad derives the padding from a kernel of unknown size.
func gradConv(c *call) {
	x, w, upstream := c.input(0), c.input(1), c.upstream(0)
	s, ok := c.convGeometry(w, c.types.get(x))
	if !ok {
		return
	}
	group := c.attrInt("group", 1)
	padded, s, crop := c.padExplicitly(x, s, 0)
	if c.needsGradient(0) {
		c.add(0, crop(c.convAdjoint(upstream, w, padded, s, group)))
	}
	if c.needsGradient(1) {
		c.add(1, c.kernelGradient(padded, upstream, w, s, group))
	}
	if c.needsGradient(2) {
		c.add(2, c.sum(upstream, append([]int64{0}, s.spatialAxes()...), false))
	}
}

// convGeometry returns the geometry of a convolution over x with the kernel w.
func (c *call) convGeometry(w string, x tensorType) (geometry, bool) {
	s, ok := c.types.windowGeometry(c.n, x, c.types.get(w).kernelSize())
	switch {
	case !ok:
		c.fail("the rank of its kernel is not known, or its attributes do not match")
	case s.begin == nil && !s.kernelKnown:
		c.fail("its padding depends on a kernel of unknown size")
		ok = false
	}
	return s, ok
}

// convAdjoint applies the adjoint of the linear map x ↦ Conv(x, w) to upstream. Only the
// shape of x matters, because the result has this shape.
//
// With stride 1, the adjoint is a convolution with the mirrored kernel. ONNX Runtime's CPU
// provider computes it in half the time of ConvTranspose, unless the result has few
// channels. For larger strides, ConvTranspose is faster than any combination of
// convolutions.
func (c *call) convAdjoint(upstream, w, x string, s geometry, group int64) string {
	const minChannels = 8 // number of float32 in a vector register
	channels, ok := c.types.get(w).dim(1)
	if !(ok && channels.known() && channels.n < minChannels && group == 1) && s.unitStride() && s.kernelKnown {
		if pads, ok := s.mirroredPads(); ok {
			m := s
			m.begin, m.end = pads[:len(s.kernel)], pads[len(s.kernel):]
			return c.nodeWith("Conv", []string{upstream, c.mirroredKernel(w, s, group)}, m.attributes(group)...)
		}
	}
	extra, exact := make([]int64, len(s.kernel)), true
	for i, stride := range s.stride {
		if stride == 1 {
			continue
		}
		if d, _ := c.types.get(x).dim(int64(i + 2)); d.known() && s.kernelKnown {
			extra[i] = (d.n + s.begin[i] + s.end[i] - s.extent(i)) % stride
		} else {
			extra[i], exact = stride-1, false
		}
	}
	dx := c.nodeWith("ConvTranspose", []string{upstream, w}, append(s.attributes(group), onnx.Attr("output_padding", extra))...)
	if exact {
		return dx
	}
	return c.cropTo(dx, c.shapeRange(x, 2, len(s.kernel)+2), s)
}

// cropTo keeps the first elements of each spatial axis of x. size contains the number of
// elements to keep along each axis.
func (c *call) cropTo(x, size string, s geometry) string {
	return c.node("Slice", x, c.ints(make([]int64, len(s.kernel))...), size, c.ints(s.spatialAxes()...))
}

// mirroredKernel returns the kernel w with its input and output channels swapped and its
// spatial axes reversed. If w is constant, the runtime computes the result only once.
func (c *call) mirroredKernel(w string, s geometry, group int64) string {
	w = c.swapChannels(w, len(s.kernel)+2, group)
	var axes []int64
	for i, k := range s.kernel {
		if k > 1 {
			axes = append(axes, int64(i)+2)
		}
	}
	if axes == nil {
		return w
	}
	last := slices.Repeat([]int64{-1}, len(axes))
	before := slices.Repeat([]int64{-1 << 40}, len(axes))
	return c.node("Slice", w, c.ints(last...), c.ints(before...), c.ints(axes...), c.ints(last...))
}

// swapChannels swaps the first two axes of a kernel within each group. The shape of the
// kernel is (outputs, inputs/group, …).
func (c *call) swapChannels(w string, rank int, group int64) string {
	dims := c.types.get(w).dims
	if len(dims) > 2 && dims[0].n == group && dims[1].n == 1 {
		return w // with one channel per group, swapping changes nothing
	}
	if group == 1 {
		return c.swapAxes(w, 0, rank)
	}
	split := c.concatInts(c.ints(group, -1), c.shapeRange(w, 1, rank))
	t := c.swapAxes(c.node("Reshape", w, split), 1, rank+1)
	return c.node("Reshape", t, c.concatInts(c.ints(-1), c.shapeRange(t, 2, rank+1)))
}

// swapAxes swaps the axes from and from+1 of x.
func (c *call) swapAxes(x string, from, rank int) string {
	perm := axisRange(0, rank)
	perm[from], perm[from+1] = perm[from+1], perm[from]
	return c.nodeWith("Transpose", []string{x}, onnx.Attr("perm", perm))
}

// kernelGradient returns the gradient of Conv(x, w) with respect to w. It is the
// correlation of x with upstream, computed as a convolution that exchanges strides with
// dilations and rows with channels. Groups become channels (group, row) of x.
func (c *call) kernelGradient(x, upstream, w string, s geometry, group int64) string {
	rank := len(s.kernel) + 2
	image := c.swapAxes(x, 0, rank)
	if group > 1 {
		split := c.concatInts(c.shapeRange(x, 0, 1), c.ints(group, -1), c.shapeRange(x, 2, rank))
		perm := append([]int64{2, 1, 0}, axisRange(3, rank+1)...)
		image = c.nodeWith("Transpose", []string{c.node("Reshape", x, split)}, onnx.Attr("perm", perm))
		image = c.node("Reshape", image, c.concatInts(c.shapeRange(image, 0, 1), c.ints(-1), c.shapeRange(image, 3, rank+1)))
	}
	m := s
	m.stride, m.dilation = s.dilation, s.stride
	m.kernelKnown = false // this convolution uses upstream as its kernel, which has a different size
	dw := c.nodeWith("Conv", []string{image, c.swapAxes(upstream, 0, rank)}, m.attributes(group)...)
	if !c.kernelSizeExact(x, upstream, s) {
		dw = c.cropTo(dw, c.shapeRange(w, 2, rank), s)
	}
	return c.swapAxes(dw, 0, rank)
}

// kernelSizeExact reports whether the correlation in kernelGradient is known to have the
// size of the kernel. It is larger if the windows leave a whole dilation step or more of x
// uncovered at the end.
func (c *call) kernelSizeExact(x, upstream string, s geometry) bool {
	for i, stride := range s.stride {
		d, _ := c.types.get(x).dim(int64(i + 2))
		o, _ := c.types.get(upstream).dim(int64(i + 2))
		if !d.known() || !o.known() || !s.kernelKnown || d.n+s.begin[i]+s.end[i]-s.extent(i)-(o.n-1)*stride >= s.dilation[i] {
			return false
		}
	}
	return true
}

// gradConvTranspose is the rule of ConvTranspose. The operator is the adjoint of a
// convolution, so its gradient is that convolution.
func gradConvTranspose(c *call) {
	x, w, upstream := c.input(0), c.input(1), c.upstream(0)
	s, ok := c.transposedGeometry()
	if !ok {
		return
	}
	group := c.attrInt("group", 1)
	if c.needsGradient(0) {
		c.add(0, c.nodeWith("Conv", []string{upstream, w}, s.attributes(group)...))
	}
	if c.needsGradient(1) {
		c.add(1, c.kernelGradient(upstream, x, w, s, group))
	}
	if c.needsGradient(2) {
		c.add(2, c.sum(upstream, append([]int64{0}, s.spatialAxes()...), false))
	}
}

// transposedGeometry returns the geometry of a convolution. The node, a ConvTranspose, is
// the adjoint of this convolution. The runtime checks that the sizes match.
func (c *call) transposedGeometry() (geometry, bool) {
	s, ok := c.convGeometry(c.input(1), tensorType{})
	if !ok || s.outputShape == nil && !s.isSamePadding() {
		return s, ok
	}
	if !s.kernelKnown {
		c.fail("its padding depends on a kernel of unknown size")
		return s, false
	}
	// With SAME padding or an output shape, the padding follows from the size of the
	// output.
	s.begin, s.end = slices.Clone(s.outputPadding), slices.Clone(s.outputPadding)
	for i, stride := range s.stride {
		total := s.extent(i) + s.outputPadding[i] - stride
		if s.outputShape != nil {
			d, _ := c.types.get(c.input(0)).dim(int64(i + 2))
			if !d.known() {
				c.fail("its padding depends on sizes that are not known")
				return s, false
			}
			total = stride*(d.n-1) + s.outputPadding[i] + s.extent(i) - s.outputShape[i]
		}
		s.begin[i], s.end[i] = s.splitPadding(max(total, 0))
	}
	s.autoPad = "NOTSET"
	return s, true
}
