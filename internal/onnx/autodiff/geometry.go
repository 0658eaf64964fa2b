package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// geometry describes how the window of a convolution or pooling moves over the spatial
// axes. These are the axes from 2 on.
type geometry struct {
	kernel, stride, dilation []int64
	kernelKnown              bool // whether all sizes of the kernel are known
	// begin and end are the padding before and after each spatial axis. They are nil if the
	// padding depends on unknown sizes.
	begin, end []int64
	autoPad    string // the attribute auto_pad
	// outputPadding and outputShape are the attributes output_padding and output_shape of a
	// ConvTranspose. outputShape is nil if it is not given.
	outputPadding, outputShape []int64
	ceilMode                   bool // the attribute ceil_mode: the last window may end beyond the padding
}

// windowGeometry reads the attributes of a convolution or pooling over x. kernel is the
// size of the window if the attribute kernel_shape is absent. −1 in kernel stands for an
// unknown size.
func (t *types) windowGeometry(n *pb.NodeProto, x tensorType, kernel []int64) (geometry, bool) {
	s := geometry{
		kernel:   kernel,
		autoPad:  onnx.AttributeString(n, "auto_pad", "NOTSET"),
		ceilMode: onnx.AttributeInt(n, "ceil_mode", 0) != 0,
	}
	if a := onnx.AttributeInts(n, "kernel_shape"); a != nil {
		s.kernel = a
	}
	rank := len(s.kernel)
	s.kernelKnown = rank > 0 && slices.Min(s.kernel) > 0
	s.stride = defaultOnes(onnx.AttributeInts(n, "strides"), rank)
	s.dilation = defaultOnes(onnx.AttributeInts(n, "dilations"), rank)
	s.outputShape = onnx.AttributeInts(n, "output_shape")
	if s.outputPadding = onnx.AttributeInts(n, "output_padding"); s.outputPadding == nil {
		s.outputPadding = make([]int64, rank)
	}
	pads := make([]int64, 2*rank)
	if a := onnx.AttributeInts(n, "pads"); a != nil && s.autoPad == "NOTSET" {
		pads = a
	}
	if rank == 0 || len(s.stride) != rank || len(s.dilation) != rank || len(pads) != 2*rank || slices.Min(s.stride) < 1 ||
		len(s.outputPadding) != rank || s.outputShape != nil && len(s.outputShape) != rank {
		return s, false
	}
	s.begin, s.end = pads[:rank:rank], pads[rank:]
	if s.isSamePadding() {
		s.setSamePadding(x)
	}
	return s, true
}

// defaultOnes returns a, or ones if the attribute is absent.
func defaultOnes(a []int64, rank int) []int64 {
	if a != nil {
		return a
	}
	return slices.Repeat([]int64{1}, rank)
}

func (s *geometry) isSamePadding() bool {
	return s.autoPad == "SAME_UPPER" || s.autoPad == "SAME_LOWER"
}

// setSamePadding sets the padding for auto_pad SAME_UPPER or SAME_LOWER, with which
// ⌈size/stride⌉ windows fit along each axis.
func (s *geometry) setSamePadding(x tensorType) {
	begin, end := make([]int64, len(s.kernel)), make([]int64, len(s.kernel))
	for i, stride := range s.stride {
		d, _ := x.dim(int64(i + 2))
		if !s.kernelKnown || stride > 1 && !d.known() {
			s.begin, s.end = nil, nil
			return
		}
		total := s.extent(i) - 1 // with stride 1, the padding does not depend on the size
		if stride > 1 {
			total = max(((d.n+stride-1)/stride-1)*stride+s.extent(i)-d.n, 0)
		}
		begin[i], end[i] = s.splitPadding(total)
	}
	s.begin, s.end = begin, end
}

// splitPadding splits the total padding of an axis into the parts before and after it. If
// the total is odd, SAME_UPPER puts the extra element at the end. With any other auto_pad,
// it is at the beginning.
func (s *geometry) splitPadding(total int64) (begin, end int64) {
	small := total / 2
	if s.autoPad == "SAME_UPPER" {
		return small, total - small
	}
	return total - small, small
}

// extent returns the number of elements that a window spans along spatial axis i, including
// gaps from dilation.
func (s *geometry) extent(i int) int64 { return (s.kernel[i]-1)*s.dilation[i] + 1 }

// windowCount returns the number of windows along spatial axis i, which has n elements.
func (s *geometry) windowCount(i int, n int64) int64 {
	stride := s.stride[i]
	if s.isSamePadding() {
		return (n + stride - 1) / stride
	}
	space := n + s.begin[i] + s.end[i] - s.extent(i)
	if !s.ceilMode {
		return space/stride + 1
	}
	count := (space+stride-1)/stride + 1
	if (count-1)*stride >= n+s.begin[i] {
		count-- // the last window must not start in the padding at the end
	}
	return count
}

// dropsWindow reports whether ceil_mode gives x a last window that starts in the padding at
// the end. The runtime leaves out such a window, but ONNX counts it before operator set 22.
func (s *geometry) dropsWindow(x tensorType) bool {
	if !s.ceilMode || !s.kernelKnown || s.isSamePadding() {
		return false
	}
	for i, stride := range s.stride {
		d, _ := x.dim(int64(i + 2))
		space := d.n + s.begin[i] + s.end[i] - s.extent(i)
		if d.known() && (space+stride-1)/stride*stride >= d.n+s.begin[i] {
			return true
		}
	}
	return false
}

// outputSizes returns the spatial sizes of the result for the input x.
func (s *geometry) outputSizes(x tensorType) []dimension {
	out := unknownDims(len(s.kernel))
	for i := range out {
		d, _ := x.dim(int64(i + 2))
		switch {
		case s.stride[i] == 1 && (s.isSamePadding() || s.kernelKnown && s.begin[i]+s.end[i] == s.extent(i)-1):
			out[i] = d
		case d.known() && (s.kernelKnown || s.isSamePadding()):
			out[i].n = s.windowCount(i, d.n)
		}
	}
	return out
}

// disjoint reports whether the windows do not overlap.
func (s *geometry) disjoint() bool {
	for i, stride := range s.stride {
		if stride < s.extent(i) {
			return false
		}
	}
	return true
}

// unitStride reports whether the windows move by one element along every axis.
func (s *geometry) unitStride() bool { return slices.Max(s.stride) == 1 }

// mirroredPads returns the padding of the adjoint of a convolution with stride 1. ok is
// false if a padding would be negative.
func (s *geometry) mirroredPads() (pads []int64, ok bool) {
	pads = make([]int64, 2*len(s.kernel))
	ok = true
	for i := range s.kernel {
		b, e := s.extent(i)-1-s.begin[i], s.extent(i)-1-s.end[i]
		pads[i], pads[len(s.kernel)+i] = b, e
		ok = ok && b >= 0 && e >= 0
	}
	return pads, ok
}

// area returns the number of elements in a window.
func (s *geometry) area() int64 {
	n := int64(1)
	for _, k := range s.kernel {
		n *= k
	}
	return n
}

// spatialAxes returns the indices of the spatial axes.
func (s *geometry) spatialAxes() []int64 { return axisRange(2, len(s.kernel)+2) }

// attributes returns the attributes of a convolution with this geometry.
func (s *geometry) attributes(group int64) []*pb.AttributeProto {
	attrs := []*pb.AttributeProto{
		onnx.Attr("strides", s.stride), onnx.Attr("dilations", s.dilation),
		onnx.Attr("pads", slices.Concat(s.begin, s.end)), onnx.Attr("group", group),
	}
	if s.kernelKnown {
		attrs = append(attrs, onnx.Attr("kernel_shape", s.kernel))
	}
	return attrs
}
