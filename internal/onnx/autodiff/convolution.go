package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradConv supports any number of spatial axes, groups, strides, dilations and every kind of
// padding.
func gradConv(c *call) {
	x, w, up := c.in(0), c.in(1), c.up(0)
	s, ok := c.convolution(w, c.types.of(x))
	if !ok {
		return
	}
	group := c.attrInt("group", 1)
	padded, s, crop := c.explicit(x, s, 0)
	if c.wants(0) {
		c.add(0, crop(c.convolveBack(up, w, padded, s, group)))
	}
	if c.wants(1) {
		c.add(1, c.kernelGradient(padded, up, w, s, group))
	}
	if c.wants(2) {
		c.add(2, c.sum(up, append([]int64{0}, s.spatialAxes()...), false))
	}
}

// convolution returns the geometry of a convolution with the kernel w.
func (c *call) convolution(w string, x tensorType) (geometry, bool) {
	s, ok := c.types.geometryOf(c.n, x, c.types.of(w).window())
	switch {
	case !ok:
		c.fail("the rank of its kernel is not known, or its attributes do not match")
	case s.begin == nil && !s.sized:
		c.fail("its padding depends on a kernel of unknown size")
		ok = false
	}
	return s, ok
}

// convolveBack is the adjoint of x ↦ Conv(x, w). The result has the shape of x, but does not
// depend on its elements.
//
// With stride 1 it is a convolution with the mirrored kernel, which ONNX Runtime's CPU provider
// runs in half the time of ConvTranspose unless the result has few channels. Larger strides are
// faster as ConvTranspose than as any combination of convolutions.
func (c *call) convolveBack(up, w, x string, s geometry, group int64) string {
	const few = 8 // the width of a vector register
	channels, ok := c.types.of(w).dim(1)
	if !(ok && channels.known() && channels.n < few && group == 1) && s.unitStride() && s.sized {
		if pads, ok := s.mirroredPads(); ok {
			m := s
			m.begin, m.end = pads[:len(s.kernel)], pads[len(s.kernel):]
			return c.nodeWith("Conv", []string{up, c.mirrored(w, s, group)}, m.attrs(group)...)
		}
	}
	extra, exact := make([]int64, len(s.kernel)), true
	for i, stride := range s.stride {
		if stride == 1 {
			continue
		}
		if d, _ := c.types.of(x).dim(int64(i + 2)); d.known() && s.sized {
			extra[i] = (d.n + s.begin[i] + s.end[i] - s.extent(i)) % stride
		} else {
			extra[i], exact = stride-1, false
		}
	}
	dx := c.nodeWith("ConvTranspose", []string{up, w}, append(s.attrs(group), onnx.Attr("output_padding", extra))...)
	if exact {
		return dx
	}
	return c.cropTo(dx, c.dimsOf(x, 2, len(s.kernel)+2), s)
}

// cropTo keeps the beginning of each spatial axis.
func (c *call) cropTo(x, size string, s geometry) string {
	return c.node("Slice", x, c.ints(make([]int64, len(s.kernel))...), size, c.ints(s.spatialAxes()...))
}

// mirrored swaps the channels of a kernel and reverses its spatial axes. The runtime does that
// only once if the kernel is constant.
func (c *call) mirrored(w string, s geometry, group int64) string {
	w = c.swapped(w, len(s.kernel)+2, group)
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

// swapped swaps the first two axes of a kernel (outputs, inputs/group, …)
// within each group.
func (c *call) swapped(w string, rank int, group int64) string {
	dims := c.types.of(w).dims
	if len(dims) > 2 && dims[0].n == group && dims[1].n == 1 {
		return w // one channel per group
	}
	if group == 1 {
		return c.swapFirst(w, 0, rank)
	}
	split := c.joined(c.ints(group, -1), c.dimsOf(w, 1, rank))
	t := c.swapFirst(c.node("Reshape", w, split), 1, rank+1)
	return c.node("Reshape", t, c.joined(c.ints(-1), c.dimsOf(t, 2, rank+1)))
}

// swapFirst swaps the axes from and from+1.
func (c *call) swapFirst(x string, from, rank int) string {
	perm := count(0, rank)
	perm[from], perm[from+1] = perm[from+1], perm[from]
	return c.nodeWith("Transpose", []string{x}, onnx.Attr("perm", perm))
}

// kernelGradient is the gradient of Conv(x, w) with respect to w: the correlation of x with the
// gradient of the output. Strides and dilations are exchanged, and so are rows and channels.
// Groups are separated as channels (group, row) of x.
func (c *call) kernelGradient(x, up, w string, s geometry, group int64) string {
	rank := len(s.kernel) + 2
	image := c.swapFirst(x, 0, rank)
	if group > 1 {
		split := c.joined(c.dimsOf(x, 0, 1), c.ints(group, -1), c.dimsOf(x, 2, rank))
		perm := append([]int64{2, 1, 0}, count(3, rank+1)...)
		image = c.nodeWith("Transpose", []string{c.node("Reshape", x, split)}, onnx.Attr("perm", perm))
		image = c.node("Reshape", image, c.joined(c.dimsOf(image, 0, 1), c.ints(-1), c.dimsOf(image, 3, rank+1)))
	}
	m := s
	m.stride, m.dilation = s.dilation, s.stride
	m.sized = false // the kernel is the gradient, with its own size
	dw := c.nodeWith("Conv", []string{image, c.swapFirst(up, 0, rank)}, m.attrs(group)...)
	if !c.fits(x, up, s) {
		dw = c.cropTo(dw, c.dimsOf(w, 2, rank), s)
	}
	return c.swapFirst(dw, 0, rank)
}

// fits reports whether the windows certainly leave at most one dilation of x uncovered at its
// end.
func (c *call) fits(x, up string, s geometry) bool {
	for i, stride := range s.stride {
		d, _ := c.types.of(x).dim(int64(i + 2))
		o, _ := c.types.of(up).dim(int64(i + 2))
		if !d.known() || !o.known() || !s.sized || d.n+s.begin[i]+s.end[i]-s.extent(i)-(o.n-1)*stride >= s.dilation[i] {
			return false
		}
	}
	return true
}

// gradConvTranspose uses that the operator is the adjoint of a convolution over its output. Its
// gradient is that convolution.
func gradConvTranspose(c *call) {
	x, w, up := c.in(0), c.in(1), c.up(0)
	s, ok := c.transposed()
	if !ok {
		return
	}
	group := c.attrInt("group", 1)
	if c.wants(0) {
		c.add(0, c.nodeWith("Conv", []string{up, w}, s.attrs(group)...))
	}
	if c.wants(1) {
		c.add(1, c.kernelGradient(up, x, w, s, group))
	}
	if c.wants(2) {
		c.add(2, c.sum(up, append([]int64{0}, s.spatialAxes()...), false))
	}
}

// transposed returns the geometry of the convolution whose adjoint is the ConvTranspose. The
// runtime checks that the two fit.
func (c *call) transposed() (geometry, bool) {
	s, ok := c.convolution(c.in(1), tensorType{})
	if !ok || s.shape == nil && !s.isSame() {
		return s, ok
	}
	if !s.sized {
		c.fail("its padding depends on a kernel of unknown size")
		return s, false
	}
	// The padding follows from the size of the output.
	s.begin, s.end = slices.Clone(s.added), slices.Clone(s.added)
	for i, stride := range s.stride {
		total := s.extent(i) + s.added[i] - stride
		if s.shape != nil {
			d, _ := c.types.of(c.in(0)).dim(int64(i + 2))
			if !d.known() {
				c.fail("its padding depends on sizes that are not known")
				return s, false
			}
			total = stride*(d.n-1) + s.added[i] + s.extent(i) - s.shape[i]
		}
		s.begin[i], s.end[i] = s.divide(max(total, 0))
	}
	s.padding = "NOTSET"
	return s, true
}
