package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// shapeFrom returns the shape that an integer tensor contains, with unknown sizes if
// necessary. It returns false if the rank is unknown.
func (t *types) shapeFrom(tensor string) ([]dimension, bool) {
	if v, ok := t.constInts(tensor); ok {
		return knownDims(v...), true
	}
	if v, ok := t.symbolicInts(tensor); ok {
		dims := make([]dimension, len(v))
		for i, e := range v {
			dims[i] = e.dimension()
		}
		return dims, true
	}
	if d, ok := t.get(tensor).dim(0); ok && d.known() {
		return unknownDims(int(d.n)), true
	}
	return nil, false
}

func inferReshape(t *types, n *pb.NodeProto) []tensorType {
	x := t.get(n.Input[0])
	out := tensorType{elem: x.elem}
	v, ok := t.symbolicInts(n.Input[1])
	if !ok {
		out.dims, out.ranked = t.shapeFrom(n.Input[1])
		return oneOutput(out)
	}
	out.ranked, out.dims = true, make([]dimension, len(v))
	inferredAxis := -1
	for i, e := range v {
		switch {
		case e.known && e.n == 0 && onnx.AttributeInt(n, "allowzero", 0) == 0:
			out.dims[i], _ = x.dim(int64(i))
		case e.known && e.n < 0:
			inferredAxis = i
		case !e.known && !e.nonNegative: // the size may be −1 at run time
			out.dims[i].n = -1
		default:
			out.dims[i] = e.dimension()
		}
	}
	if inferredAxis >= 0 {
		out.dims[inferredAxis] = remainingDim(x, slices.Delete(slices.Clone(out.dims), inferredAxis, inferredAxis+1))
	}
	return oneOutput(out)
}

// remainingDim returns the size of the one axis that a Reshape must compute. x is the input
// of the Reshape. others are the other axes of its result.
func remainingDim(x tensorType, others []dimension) dimension {
	if !x.ranked {
		return dimension{n: -1}
	}
	size, rest := int64(1), int64(1)
	var symbols []string
	for _, d := range x.dims {
		switch {
		case d.known():
			size *= d.n
		case d.symbol == "":
			return dimension{n: -1}
		default:
			symbol, times := splitFactor(d.symbol)
			symbols, size = append(symbols, symbol), size*times
		}
	}
	for _, d := range others {
		if d.known() {
			rest *= d.n
			continue
		}
		symbol, times := splitFactor(d.symbol)
		rest *= times
		i := slices.Index(symbols, symbol)
		if i < 0 {
			return dimension{n: -1}
		}
		symbols = slices.Delete(symbols, i, i+1)
	}
	switch {
	case len(symbols) == 0 && rest > 0:
		return dimension{n: size / rest}
	case len(symbols) == 1 && rest > 0 && size%rest == 0:
		times := symbolicInt{n: size / rest, known: true}
		return combine("Mul", dimension{n: -1, symbol: symbols[0]}.symbolicInt(), times).dimension()
	}
	return dimension{n: -1}
}
