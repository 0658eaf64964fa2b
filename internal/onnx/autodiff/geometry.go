package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// geometry describes how a window moves over the spatial axes, which are all axes from 2 on.
type geometry struct {
	kernel, stride, dilation []int64
	kernelKnown              bool // the size of the kernel is known, not only its rank
	// begin and end are the padding, or nil if it depends on unknown sizes.
	begin, end []int64
	autoPad    string // auto_pad
	// outputPadding and shape are the output_padding and the output_shape of a ConvTranspose. shape is
	// nil if it is not given.
	outputPadding, outputShape []int64
	ceilMode                   bool // a last window may start within and end beyond the padding
}

// windowGeometry reads the attributes of a convolution or a pooling over x. kernel is the window's
// size if the attribute is absent. It contains −1 for unknown sizes.
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

func defaultOnes(a []int64, rank int) []int64 {
	if a != nil {
		return a
	}
	return slices.Repeat([]int64{1}, rank)
}

func (s *geometry) isSamePadding() bool {
	return s.autoPad == "SAME_UPPER" || s.autoPad == "SAME_LOWER"
}

// setSamePadding sets the padding that gives ⌈size/stride⌉ windows.
func (s *geometry) setSamePadding(x tensorType) {
	begin, end := make([]int64, len(s.kernel)), make([]int64, len(s.kernel))
	for i, stride := range s.stride {
		d, _ := x.dim(int64(i + 2))
		if !s.kernelKnown || stride > 1 && !d.known() {
			s.begin, s.end = nil, nil
			return
		}
		total := s.extent(i) - 1 // for a stride of 1, independent of the size
		if stride > 1 {
			total = max(((d.n+stride-1)/stride-1)*stride+s.extent(i)-d.n, 0)
		}
		begin[i], end[i] = s.splitPadding(total)
	}
	s.begin, s.end = begin, end
}

// splitPadding splits a total padding. An odd total adds the extra one to the end for SAME_UPPER, and
// to the beginning otherwise.
func (s *geometry) splitPadding(total int64) (begin, end int64) {
	small := total / 2
	if s.autoPad == "SAME_UPPER" {
		return small, total - small
	}
	return total - small, small
}

// extent returns the length of a window along spatial axis i, including dilation.
func (s *geometry) extent(i int) int64 { return (s.kernel[i]-1)*s.dilation[i] + 1 }

// windowCount returns the number of windows along spatial axis i of size n.
func (s *geometry) windowCount(i int, n int64) int64 {
	stride := s.stride[i]
	if s.isSamePadding() {
		return (n + stride - 1) / stride
	}
	room := n + s.begin[i] + s.end[i] - s.extent(i)
	if !s.ceilMode {
		return room/stride + 1
	}
	count := (room+stride-1)/stride + 1
	if (count-1)*stride >= n+s.begin[i] {
		count-- // no window may start in the padding at the end
	}
	return count
}

// dropsWindow reports whether the last window of x would start in the padding at the end.
func (s *geometry) dropsWindow(x tensorType) bool {
	if !s.ceilMode || !s.kernelKnown || s.isSamePadding() {
		return false
	}
	for i, stride := range s.stride {
		d, _ := x.dim(int64(i + 2))
		room := d.n + s.begin[i] + s.end[i] - s.extent(i)
		if d.known() && (room+stride-1)/stride*stride >= d.n+s.begin[i] {
			return true
		}
	}
	return false
}

// outputSizes returns the spatial sizes of the result for x.
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

// disjoint reports whether no two windows overlap.
func (s *geometry) disjoint() bool {
	for i, stride := range s.stride {
		if stride < s.extent(i) {
			return false
		}
	}
	return true
}

func (s *geometry) unitStride() bool { return slices.Max(s.stride) == 1 }

// mirroredPads returns the padding of the adjoint of a window with stride 1.
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

// spatialAxes returns the axes that a window moves along.
func (s *geometry) spatialAxes() []int64 { return axisRange(2, len(s.kernel)+2) }

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
