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
			return one(tensorType{})
		}
		c = a.GetT()
	}
	t.consts[n.Output[0]] = c
	return one(typeOfTensor(c))
}

func inferShape(t *types, n *pb.NodeProto) []tensorType {
	out := tensorType{elem: pb.TensorProto_INT64, ranked: true, dims: unknown(1)}
	if len(n.Attribute) > 0 {
		return one(out) // a part of the shape
	}
	if x := t.of(n.Input[0]); x.ranked {
		out.dims[0].n = int64(len(x.dims))
	}
	return one(out)
}

func inferSize(*types, *pb.NodeProto) []tensorType {
	return one(tensorType{elem: pb.TensorProto_INT64, ranked: true})
}

func inferExpand(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
	out := tensorType{elem: x.elem}
	if dims, ok := t.shapeFrom(n.Input[1]); ok && x.ranked {
		out.ranked, out.dims = true, broadcastDims(x.dims, dims)
	}
	return one(out)
}

func inferFlatten(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
	out := tensorType{elem: x.elem, ranked: true, dims: unknown(2)}
	axis := wrap(onnx.AttributeInt(n, "axis", 1), int64(len(x.dims)))
	if !x.ranked || axis < 0 || axis > int64(len(x.dims)) {
		return one(out)
	}
	for i, part := range [][]dimension{x.dims[:axis], x.dims[axis:]} {
		if n, ok := (tensorType{ranked: true, dims: part}).size(); ok {
			out.dims[i].n = n
		} else if len(part) == 1 {
			out.dims[i] = part[0]
		}
	}
	return one(out)
}

func inferSqueeze(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
	out := tensorType{elem: x.elem}
	axes, err := t.axes(n, 1)
	if err != nil || !x.ranked {
		return one(out)
	}
	drop := make(map[int64]bool)
	for _, a := range axes {
		a = wrap(a, int64(len(x.dims)))
		drop[a] = true
	}
	for i, d := range x.dims {
		if axes == nil && !d.known() {
			return one(tensorType{elem: x.elem})
		}
		if drop[int64(i)] || axes == nil && d.n == 1 {
			continue
		}
		out.dims = append(out.dims, d)
	}
	out.ranked = true
	return one(out)
}

func inferUnsqueeze(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
	out := tensorType{elem: x.elem}
	axes, err := t.axes(n, 1)
	if err != nil || !x.ranked {
		return one(out)
	}
	rank := int64(len(x.dims) + len(axes))
	axes = slices.Clone(axes)
	for i, a := range axes {
		axes[i] = wrap(a, rank)
	}
	slices.Sort(axes)
	dims := slices.Clone(x.dims)
	for _, a := range axes {
		if a < 0 || a > int64(len(dims)) {
			return one(out)
		}
		dims = slices.Insert(dims, int(a), dimension{n: 1})
	}
	out.ranked, out.dims = true, dims
	return one(out)
}

func inferTranspose(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
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
	return one(out)
}

func inferConcat(t *types, n *pb.NodeProto) []tensorType {
	out := t.of(n.Input[0])
	out.dims = slices.Clone(out.dims)
	axis := wrap(onnx.AttributeInt(n, "axis", 0), int64(len(out.dims)))
	total := int64(0)
	for _, in := range n.Input {
		x := t.of(in)
		if x.ranked && !out.ranked {
			out.ranked, out.dims = true, unknown(len(x.dims))
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
	return one(out)
}

func inferSplit(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
	axis := wrap(onnx.AttributeInt(n, "axis", 0), int64(len(x.dims)))
	var sizes []int64
	if len(n.Input) > 1 && n.Input[1] != "" {
		sizes, _ = t.intsOf(n.Input[1])
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
	x := t.of(n.Input[0])
	if !x.ranked {
		return one(x)
	}
	cut, ok := t.cut(n, len(x.dims))
	if !ok {
		return one(tensorType{elem: x.elem, ranked: true, dims: unknown(len(x.dims))})
	}
	out := tensorType{elem: x.elem, ranked: true, dims: slices.Clone(x.dims)}
	for _, s := range cut {
		d := dimension{n: -1}
		if size := x.dims[s.axis]; size.known() {
			_, d.n = s.taken(size.n)
		}
		out.dims[s.axis] = d
	}
	return one(out)
}

func inferPad(t *types, n *pb.NodeProto) []tensorType {
	x := t.of(n.Input[0])
	if !x.ranked {
		return one(x)
	}
	out := tensorType{elem: x.elem, ranked: true, dims: unknown(len(x.dims))}
	pads, ok := t.intsOf(n.Input[1])
	if !ok || len(pads) != 2*len(x.dims) || len(n.Input) > 3 && n.Input[3] != "" {
		return one(out)
	}
	for i, d := range x.dims {
		if pad := pads[i] + pads[len(x.dims)+i]; d.known() {
			out.dims[i].n = d.n + pad
		} else if pad == 0 {
			out.dims[i] = d
		}
	}
	return one(out)
}

func inferGatherElements(t *types, n *pb.NodeProto) []tensorType {
	out := t.of(n.Input[1])
	out.elem = t.of(n.Input[0]).elem
	return one(out)
}
