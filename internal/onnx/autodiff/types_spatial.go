package autodiff

import (
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func inferConv(t *types, n *pb.NodeProto) []tensorType {
	x, w := t.get(n.Input[0]), t.get(n.Input[1])
	s, ok := t.windowGeometry(n, x, w.kernelSize())
	if !ok {
		return oneOutput(tensorType{elem: x.elem, ranked: x.ranked, dims: unknownDims(len(x.dims))})
	}
	rows, _ := x.dim(0)
	channels, _ := w.dim(0)
	return oneOutput(tensorType{elem: x.elem, ranked: true, dims: append([]dimension{rows, channels}, s.outputSizes(x)...)})
}

func inferConvTranspose(t *types, n *pb.NodeProto) []tensorType {
	x, w := t.get(n.Input[0]), t.get(n.Input[1])
	out := tensorType{elem: x.elem, ranked: x.ranked, dims: unknownDims(len(x.dims))}
	if len(x.dims) < 3 {
		return oneOutput(out)
	}
	out.dims[0] = x.dims[0]
	if d, _ := w.dim(1); d.known() {
		out.dims[1].n = d.n * onnx.AttributeInt(n, "group", 1)
	}
	s, ok := t.windowGeometry(n, tensorType{}, w.kernelSize())
	if !ok || len(s.kernel) != len(x.dims)-2 {
		return oneOutput(out)
	}
	for i, stride := range s.stride {
		switch d := x.dims[i+2]; {
		case s.outputShape != nil:
			out.dims[i+2].n = s.outputShape[i]
		case s.isSamePadding() || !s.kernelKnown:
		case stride == 1 && s.outputPadding[i] == 0 && s.begin[i]+s.end[i] == s.extent(i)-1:
			out.dims[i+2] = d
		case d.known():
			out.dims[i+2].n = (d.n-1)*stride + s.outputPadding[i] + s.extent(i) - s.begin[i] - s.end[i]
		}
	}
	return oneOutput(out)
}

// kernelSize returns the sizes of a kernel (outputs, inputs, …) along its spatial axes.
// Unknown sizes are −1.
func (t tensorType) kernelSize() []int64 {
	if len(t.dims) < 3 {
		return nil
	}
	sizes := make([]int64, len(t.dims)-2)
	for i, d := range t.dims[2:] {
		sizes[i] = d.n
	}
	return sizes
}

// inferPool infers the outputs of poolings. The second output exists only for MaxPool.
func inferPool(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem, ranked: x.ranked, dims: unknownDims(len(x.dims))}
	if s, ok := t.windowGeometry(n, x, nil); ok && len(x.dims) == len(s.kernel)+2 {
		out.dims = append(slices.Clone(x.dims[:2]), s.outputSizes(x)...)
	}
	indices := out
	indices.elem = pb.TensorProto_INT64
	return []tensorType{out, indices}
}

func inferGlobalPool(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	x.dims = slices.Clone(x.dims)
	for i := 2; i < len(x.dims); i++ {
		x.dims[i] = dimension{n: 1}
	}
	return oneOutput(x)
}

func inferResize(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem, ranked: x.ranked, dims: unknownDims(len(x.dims))}
	axes := onnx.AttributeInts(n, "axes")
	if axes != nil || onnx.AttributeString(n, "keep_aspect_ratio_policy", "stretch") != "stretch" {
		return oneOutput(out)
	}
	var scales []float32
	switch {
	case len(n.Input) > 3 && n.Input[3] != "":
		if dims, ok := t.shapeFrom(n.Input[3]); ok && len(dims) == len(x.dims) {
			out.dims = dims
		}
		return oneOutput(out)
	case len(n.Input) > 2:
		scales, _ = t.constFloats(n.Input[2])
	}
	if len(scales) != len(x.dims) {
		return oneOutput(out)
	}
	for i, d := range x.dims {
		if scales[i] == 1 {
			out.dims[i] = d
		} else if d.known() {
			out.dims[i].n = int64(math.Floor(float64(float32(d.n) * scales[i])))
		}
	}
	return oneOutput(out)
}

func inferDepthToSpace(t *types, n *pb.NodeProto) []tensorType {
	b := onnx.AttributeInt(n, "blocksize", 1)
	return t.inferBlocks(n, func(channels, size int64) (int64, int64) { return channels / (b * b), size * b })
}

func inferSpaceToDepth(t *types, n *pb.NodeProto) []tensorType {
	b := onnx.AttributeInt(n, "blocksize", 1)
	return t.inferBlocks(n, func(channels, size int64) (int64, int64) { return channels * b * b, size / b })
}

// inferBlocks infers the output of SpaceToDepth or DepthToSpace. resize converts the number
// of channels and the size of a spatial axis to those of the output.
func (t *types) inferBlocks(n *pb.NodeProto, resize func(channels, size int64) (int64, int64)) []tensorType {
	x := t.get(n.Input[0])
	x.dims = slices.Clone(x.dims)
	if onnx.AttributeInt(n, "blocksize", 1) < 1 || len(x.dims) != 4 {
		return oneOutput(tensorType{elem: x.elem})
	}
	for i, d := range x.dims[1:] {
		x.dims[i+1] = dimension{n: -1}
		if channels, size := resize(d.n, d.n); d.known() && i == 0 {
			x.dims[1].n = channels
		} else if d.known() {
			x.dims[i+1].n = size
		}
	}
	return oneOutput(x)
}

// constFloats returns the elements of a constant tensor as float32. It returns false if the
// tensor is not constant.
func (t *types) constFloats(tensor string) ([]float32, bool) {
	c, ok := t.consts[tensor]
	if !ok {
		c, ok = t.index.Const(tensor)
	}
	if !ok {
		return nil, false
	}
	v, _, err := onnx.Float32s(c, t.dir)
	return v, err == nil
}
