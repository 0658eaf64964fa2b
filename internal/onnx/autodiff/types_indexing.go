package autodiff

import (
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// inferFuncFor returns the inference function for a node's operator, or nil if there is
// none.
func inferFuncFor(n *pb.NodeProto) func(*types, *pb.NodeProto) []tensorType {
	switch {
	case onnx.IsDefault(n.GetDomain()):
		return inferFuncs[n.GetOpType()]
	case n.GetDomain() == classicalDomain && slices.Contains([]string{"Scaler", "Normalizer"}, n.GetOpType()):
		return inferElement(pb.TensorProto_FLOAT)
	}
	return nil
}

// withElem returns t with the element type elem.
func (t tensorType) withElem(elem pb.TensorProto_DataType) tensorType {
	t.elem = elem
	return t
}

// inferElement returns an inference function for operators that change only the element
// type.
func inferElement(elem pb.TensorProto_DataType) func(*types, *pb.NodeProto) []tensorType {
	return func(t *types, n *pb.NodeProto) []tensorType { return oneOutput(t.get(n.Input[0]).withElem(elem)) }
}

func inferDropout(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	return []tensorType{x, x.withElem(pb.TensorProto_BOOL)}
}

func inferArg(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	axis := wrapIndex(onnx.AttributeInt(n, "axis", 0), int64(len(x.dims)))
	out := tensorType{elem: pb.TensorProto_INT64}
	if !x.ranked || axis < 0 || axis >= int64(len(x.dims)) {
		return oneOutput(out)
	}
	out.ranked, out.dims = true, slices.Clone(x.dims)
	out.dims[axis] = dimension{n: 1}
	if onnx.AttributeInt(n, "keepdims", 1) == 0 {
		out.dims = slices.Delete(out.dims, int(axis), int(axis)+1)
	}
	return oneOutput(out)
}

func inferTopK(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	axis := wrapIndex(onnx.AttributeInt(n, "axis", -1), int64(len(x.dims)))
	if !x.ranked || axis < 0 || axis >= int64(len(x.dims)) {
		return []tensorType{x, {elem: pb.TensorProto_INT64}}
	}
	k := dimension{n: -1}
	if v, ok := t.constInts(n.Input[1]); ok && len(v) == 1 {
		k.n = v[0]
	}
	x.dims = slices.Clone(x.dims)
	x.dims[axis] = k
	return []tensorType{x, x.withElem(pb.TensorProto_INT64)}
}

func inferGather(t *types, n *pb.NodeProto) []tensorType {
	x, indices := t.get(n.Input[0]), t.get(n.Input[1])
	axis := wrapIndex(onnx.AttributeInt(n, "axis", 0), int64(len(x.dims)))
	out := tensorType{elem: x.elem}
	if !x.ranked || !indices.ranked || axis < 0 || axis >= int64(len(x.dims)) {
		return oneOutput(out)
	}
	out.ranked, out.dims = true, slices.Concat(x.dims[:axis], indices.dims, x.dims[axis+1:])
	return oneOutput(out)
}

func inferGatherND(t *types, n *pb.NodeProto) []tensorType {
	x, indices := t.get(n.Input[0]), t.get(n.Input[1])
	out := tensorType{elem: x.elem}
	last, ok := indices.dim(-1)
	indexedAxes := int(onnx.AttributeInt(n, "batch_dims", 0) + last.n)
	if !ok || !last.known() || !x.ranked || indexedAxes > len(x.dims) {
		return oneOutput(out)
	}
	out.ranked, out.dims = true, slices.Concat(indices.dims[:len(indices.dims)-1], x.dims[indexedAxes:])
	return oneOutput(out)
}

func inferTile(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	if !x.ranked {
		return oneOutput(x)
	}
	out := tensorType{elem: x.elem, ranked: true, dims: unknownDims(len(x.dims))}
	repeats, ok := t.constInts(n.Input[1])
	for i, d := range x.dims {
		if ok && i < len(repeats) && d.known() {
			out.dims[i].n = d.n * repeats[i]
		}
	}
	return oneOutput(out)
}

// inferEinsum finds the size of each letter in the shapes of the operands.
func inferEinsum(t *types, n *pb.NodeProto) []tensorType {
	out := tensorType{elem: t.get(n.Input[0]).elem}
	terms, result, ok := einsumTerms(onnx.AttributeString(n, "equation", ""), len(n.Input))
	if !ok || strings.Contains(result, "...") {
		return oneOutput(out)
	}
	size := make(map[string]dimension)
	for i, term := range terms {
		x, l := t.get(n.Input[i]), letters(term)
		if !x.ranked || len(l) != len(x.dims) || slices.Contains(l, "...") {
			continue
		}
		for k, letter := range l {
			if d, ok := size[letter]; !ok || !d.known() || d.n == 1 && x.dims[k].known() {
				size[letter] = x.dims[k]
			}
		}
	}
	out.ranked, out.dims = true, []dimension{}
	for _, letter := range letters(result) {
		d, ok := size[letter]
		if !ok {
			d = dimension{n: -1}
		}
		out.dims = append(out.dims, d)
	}
	return oneOutput(out)
}

func inferConstantOfShape(t *types, n *pb.NodeProto) []tensorType {
	out := tensorType{elem: pb.TensorProto_FLOAT}
	if a := onnx.Attribute(n, "value"); a.GetT() != nil {
		out.elem = pb.TensorProto_DataType(a.GetT().GetDataType())
	}
	if dims, ok := t.shapeFrom(n.Input[0]); ok {
		out.ranked, out.dims = true, dims
	}
	return oneOutput(out)
}

func inferRange(t *types, n *pb.NodeProto) []tensorType {
	return oneOutput(tensorType{elem: t.get(n.Input[0]).elem, ranked: true, dims: unknownDims(1)})
}

func inferNonZero(t *types, n *pb.NodeProto) []tensorType {
	out := tensorType{elem: pb.TensorProto_INT64, ranked: true, dims: unknownDims(2)}
	if rank, ok := t.get(n.Input[0]).rank(); ok {
		out.dims[0].n = int64(rank)
	}
	return oneOutput(out)
}
