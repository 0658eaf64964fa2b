package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
)

// kernelGradient is the gradient of Conv(x, w) with respect to w: x correlated
// with the gradient of the output, with strides and dilations in each other's
// place and rows and channels too. Groups are kept apart as channels
// (group, row) of x.
func (c *call) kernelGradient(x, up, w string, s geometry, group int64) string {
	rank := len(s.kernel) + 2
	image := c.swapFirst(x, 0, rank)
	if group > 1 {
		split := c.joined(c.dimsOf(x, 0, 1), c.ints(group, -1), c.dimsOf(x, 2, rank))
		perm := []int64{2, 1, 0}
		for i := 3; i <= rank; i++ {
			perm = append(perm, int64(i))
		}
		image = c.nodeWith("Transpose", []string{c.node("Reshape", x, split)}, onnx.Attr("perm", perm))
		image = c.node("Reshape", image, c.joined(c.dimsOf(image, 0, 1), c.ints(-1), c.dimsOf(image, 3, rank+1)))
	}
	m := s
	m.stride, m.dilation = s.dilation, s.stride
	m.sized = false // the kernel is the gradient, of its own size
	dw := c.nodeWith("Conv", []string{image, c.swapFirst(up, 0, rank)}, m.attrs(group)...)
	if !c.fits(x, up, s) {
		dw = c.cropTo(dw, c.dimsOf(w, 2, rank), s)
	}
	return c.swapFirst(dw, 0, rank)
}

// fits says that the windows are known to leave no more than a dilation of x
// uncovered at its end.
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
