package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradConvTranspose: the operator is the adjoint of a convolution over its
// output, so its gradient is that convolution.
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

// transposed is the geometry of the convolution that a ConvTranspose is the
// adjoint of. The runtime sees to it that the two fit.
func (c *call) transposed() (geometry, bool) {
	s, ok := c.convolution(c.in(1), tensorType{})
	if !ok {
		return s, false
	}
	rank := len(s.kernel)
	added := onnx.AttributeInts(c.n, "output_padding")
	if added == nil {
		added = make([]int64, rank)
	}
	shape := onnx.AttributeInts(c.n, "output_shape")
	if len(added) != rank || shape != nil && len(shape) != rank {
		c.fail("its output_padding or output_shape has not one number per spatial axis")
		return s, false
	}
	if shape == nil && !s.isSame() {
		return s, true
	}
	if !s.sized {
		c.fail("its padding depends on a kernel of unknown size")
		return s, false
	}
	// The padding follows from the size of the output.
	s.begin, s.end = slices.Clone(added), slices.Clone(added)
	for i, stride := range s.stride {
		total := s.extent(i) + added[i] - stride
		if shape != nil {
			d, _ := c.types.of(c.in(0)).dim(int64(i + 2))
			if !d.known() {
				c.fail("its padding depends on sizes that are not known")
				return s, false
			}
			total = stride*(d.n-1) + added[i] + s.extent(i) - shape[i]
		}
		s.begin[i], s.end[i] = s.divide(max(total, 0))
	}
	s.padding = "NOTSET"
	return s, true
}
