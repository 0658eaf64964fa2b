package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func inferConstant(t *types, n *pb.NodeProto) []tensorType {
	c, ok := t.index.Const(n.Output[0])
	if !ok {
		a := onnx.Attribute(n, "value")
		if a.GetT() == nil {
			return oneOutput(tensorType{})
		}
		c = a.GetT()
	}
	t.consts[n.Output[0]] = c
	return oneOutput(typeOfTensor(c))
}

func inferShape(t *types, n *pb.NodeProto) []tensorType {
	out := tensorType{elem: pb.TensorProto_INT64, ranked: true, dims: unknownDims(1)}
	if len(n.Attribute) > 0 {
		return oneOutput(out) // the attributes select a part of the shape
	}
	if x := t.get(n.Input[0]); x.ranked {
		out.dims[0].n = int64(len(x.dims))
	}
	return oneOutput(out)
}

func inferSize(*types, *pb.NodeProto) []tensorType {
	return oneOutput(tensorType{elem: pb.TensorProto_INT64, ranked: true})
}

func inferExpand(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem}
	if dims, ok := t.shapeFrom(n.Input[1]); ok && x.ranked {
		out.ranked, out.dims = true, broadcastDims(x.dims, dims)
	}
	return oneOutput(out)
}

func inferFlatten(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem, ranked: true, dims: unknownDims(2)}
	axis := wrapIndex(onnx.AttributeInt(n, "axis", 1), int64(len(x.dims)))
	if !x.ranked || axis < 0 || axis > int64(len(x.dims)) {
		return oneOutput(out)
	}
	for i, part := range [][]dimension{x.dims[:axis], x.dims[axis:]} {
		if n, ok := (tensorType{ranked: true, dims: part}).size(); ok {
			out.dims[i].n = n
		} else if len(part) == 1 {
			out.dims[i] = part[0]
		}
	}
	return oneOutput(out)
}

func inferSqueeze(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem}
	axes, err := t.axes(n, 1)
	if err != nil || !x.ranked {
		return oneOutput(out)
	}
	drop := make(map[int64]bool)
	for _, a := range axes {
		a = wrapIndex(a, int64(len(x.dims)))
		drop[a] = true
	}
	for i, d := range x.dims {
		if axes == nil && !d.known() {
			return oneOutput(tensorType{elem: x.elem})
		}
		if drop[int64(i)] || axes == nil && d.n == 1 {
			continue
		}
		out.dims = append(out.dims, d)
	}
	out.ranked = true
	return oneOutput(out)
}

func inferUnsqueeze(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem}
	axes, err := t.axes(n, 1)
	if err != nil || !x.ranked {
		return oneOutput(out)
	}
	rank := int64(len(x.dims) + len(axes))
	axes = slices.Clone(axes)
	for i, a := range axes {
		axes[i] = wrapIndex(a, rank)
	}
	slices.Sort(axes)
	dims := slices.Clone(x.dims)
	for _, a := range axes {
		if a < 0 || a > int64(len(dims)) {
			return oneOutput(out)
		}
		dims = slices.Insert(dims, int(a), dimension{n: 1})
	}
	out.ranked, out.dims = true, dims
	return oneOutput(out)
}

func inferTranspose(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem, ranked: x.ranked}
	perm := onnx.AttributeInts(n, "perm")
	for i := range x.dims {
		from := int64(len(x.dims) - 1 - i)
		if i < len(perm) {
			from = perm[i]
		}
		d, _ := x.dim(from)
		out.dims = append(out.dims, d)
	}
	return oneOutput(out)
}

func inferConcat(t *types, n *pb.NodeProto) []tensorType {
	out := t.get(n.Input[0])
	out.dims = slices.Clone(out.dims)
	axis := wrapIndex(onnx.AttributeInt(n, "axis", 0), int64(len(out.dims)))
	total := int64(0)
	for _, in := range n.Input {
		x := t.get(in)
		if x.ranked && !out.ranked {
			out.ranked, out.dims = true, unknownDims(len(x.dims))
		}
		if d, ok := x.dim(axis); !ok || !d.known() || total < 0 {
			total = -1
		} else {
			total += d.n
		}
	}
	if axis >= 0 && axis < int64(len(out.dims)) {
		out.dims[axis] = dimension{n: total}
	}
	return oneOutput(out)
}

func inferSplit(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	axis := wrapIndex(onnx.AttributeInt(n, "axis", 0), int64(len(x.dims)))
	var sizes []int64
	if len(n.Input) > 1 && n.Input[1] != "" {
		sizes, _ = t.constInts(n.Input[1])
	}
	out := make([]tensorType, len(n.Output))
	for i := range out {
		out[i] = tensorType{elem: x.elem, ranked: x.ranked, dims: slices.Clone(x.dims)}
		if axis < 0 || axis >= int64(len(x.dims)) {
			continue
		}
		out[i].dims[axis] = dimension{n: -1}
		if i < len(sizes) {
			out[i].dims[axis].n = sizes[i]
		}
	}
	return out
}

func inferSlice(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	if !x.ranked {
		return oneOutput(x)
	}
	spans, ok := t.sliceSpans(n, len(x.dims))
	if !ok {
		return oneOutput(tensorType{elem: x.elem, ranked: true, dims: unknownDims(len(x.dims))})
	}
	out := tensorType{elem: x.elem, ranked: true, dims: slices.Clone(x.dims)}
	for _, s := range spans {
		d := dimension{n: -1}
		if size := x.dims[s.axis]; size.known() {
			_, d.n = s.resolve(size.n)
		}
		out.dims[s.axis] = d
	}
	return oneOutput(out)
}

func inferPad(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	if !x.ranked {
		return oneOutput(x)
	}
	out := tensorType{elem: x.elem, ranked: true, dims: unknownDims(len(x.dims))}
	pads, ok := t.constInts(n.Input[1])
	if !ok || len(pads) != 2*len(x.dims) || len(n.Input) > 3 && n.Input[3] != "" {
		return oneOutput(out)
	}
	for i, d := range x.dims {
		if pad := pads[i] + pads[len(x.dims)+i]; d.known() {
			out.dims[i].n = d.n + pad
		} else if pad == 0 {
			out.dims[i] = d
		}
	}
	return oneOutput(out)
}

func inferGatherElements(t *types, n *pb.NodeProto) []tensorType {
	out := t.get(n.Input[1])
	out.elem = t.get(n.Input[0]).elem
	return oneOutput(out)
}
