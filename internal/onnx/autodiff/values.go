package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// symbolicInt is an element of a small integer tensor, as far as it is known before the
// graph runs.
type symbolicInt struct {
	n           int64
	known       bool
	symbol      string // elements with the same symbol are equal, everywhere in the graph
	nonNegative bool   // whether it cannot be negative, for example as the size of an axis
}

// maxTracked is the largest length of a tensor whose elements are tracked. Tensors that
// contain shapes are short.
const maxTracked = 32

func (d dimension) symbolicInt() symbolicInt {
	return symbolicInt{n: d.n, known: d.known(), symbol: d.symbol, nonNegative: true}
}

func (v symbolicInt) dimension() dimension {
	if v.known && v.n >= 0 {
		return dimension{n: v.n}
	}
	return dimension{n: -1, symbol: v.symbol}
}

// symbolicInts returns the elements of an integer tensor. It returns false if the tensor is
// too long or unknown.
func (t *types) symbolicInts(tensor string) ([]symbolicInt, bool) {
	if v, ok := t.symbolic[tensor]; ok {
		return v, true
	}
	if size, ok := t.get(tensor).size(); !ok || size > maxTracked {
		return nil, false
	}
	ints, ok := t.constInts(tensor)
	if !ok {
		return nil, false
	}
	v := make([]symbolicInt, len(ints))
	for i, n := range ints {
		v[i] = symbolicInt{n: n, known: true}
	}
	return v, true
}

// evaluate records the result of a node that computes with small integer tensors. This
// makes shapes known that the graph computes with shape arithmetic.
func (t *types) evaluate(n *pb.NodeProto) {
	if !onnx.IsDefault(n.GetDomain()) || len(n.Output) != 1 {
		return
	}
	if v, ok := t.evaluateNode(n); ok && len(v) <= maxTracked {
		t.symbolic[n.Output[0]] = v
	}
}

// evaluateNode returns the elements of a node's output as far as they are known.
func (t *types) evaluateNode(n *pb.NodeProto) ([]symbolicInt, bool) {
	switch n.GetOpType() {
	case "Shape":
		return t.evaluateShape(n)
	case "ConstantOfShape":
		return t.evaluateConstantOfShape(n)
	}
	if t.differentiable(n.Output[0]) {
		return nil, false
	}
	in := make([][]symbolicInt, len(n.Input))
	for i, name := range n.Input {
		v, ok := t.symbolicInts(name)
		if !ok && name != "" {
			return nil, false
		}
		in[i] = v
	}
	switch op := n.GetOpType(); op {
	case "Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Expand":
		if op == "Expand" && len(in[0]) > 0 {
			if size, ok := t.get(n.Output[0]).size(); !ok || size != int64(len(in[0])) {
				return nil, false
			}
		}
		return in[0], true
	case "Concat":
		var all []symbolicInt
		for _, v := range in {
			all = append(all, v...)
		}
		return all, true
	case "Gather":
		return evaluateGather(in[0], in[1])
	case "Slice":
		return t.evaluateSlice(n, in[0])
	case "Transpose":
		return t.evaluateTranspose(n, in[0])
	case "Where":
		return evaluateBroadcast(func(v []symbolicInt) symbolicInt { return v[0].choose(v[1], v[2]) }, in...)
	case "Add", "Div", "Equal", "Max", "Min", "Mod", "Mul", "Sub":
		if len(in) == 2 {
			return evaluateBroadcast(func(v []symbolicInt) symbolicInt { return combine(op, v[0], v[1]) }, in...)
		}
	}
	return nil, false
}

func (t *types) evaluateShape(n *pb.NodeProto) ([]symbolicInt, bool) {
	x := t.get(n.Input[0])
	if !x.ranked {
		return nil, false
	}
	s := span{start: onnx.AttributeInt(n, "start", 0), end: onnx.AttributeInt(n, "end", int64(len(x.dims)))}
	start, end := s.clamp(int64(len(x.dims)))
	v := []symbolicInt{}
	for ; start < end; start++ {
		v = append(v, x.dims[start].symbolicInt())
	}
	return v, true
}

func (t *types) evaluateConstantOfShape(n *pb.NodeProto) ([]symbolicInt, bool) {
	a := onnx.Attribute(n, "value")
	size, ok := t.get(n.Output[0]).size()
	if a.GetT() == nil || !ok || size > maxTracked {
		return nil, false
	}
	value, _, err := onnx.Int64s(a.GetT(), t.dir)
	if err != nil || len(value) != 1 {
		return nil, false
	}
	v := make([]symbolicInt, size)
	for i := range v {
		v[i] = symbolicInt{n: value[0], known: true}
	}
	return v, true
}

func evaluateGather(x, at []symbolicInt) ([]symbolicInt, bool) {
	out := make([]symbolicInt, len(at))
	for i, a := range at {
		k := wrapIndex(a.n, int64(len(x)))
		if !a.known || k < 0 || k >= int64(len(x)) {
			return nil, false
		}
		out[i] = x[k]
	}
	return out, true
}

func (t *types) evaluateSlice(n *pb.NodeProto, x []symbolicInt) ([]symbolicInt, bool) {
	dims, ok := t.get(n.Input[0]).static()
	spans, known := t.sliceSpans(n, len(dims))
	if !ok || !known {
		return nil, false
	}
	for _, s := range spans {
		first, count := s.resolve(dims[s.axis])
		var selected []symbolicInt
		inner := int64(1)
		for _, d := range dims[s.axis+1:] {
			inner *= d
		}
		for row := int64(0); row < int64(len(x)); row += inner * dims[s.axis] {
			for i := range count {
				at := row + (first+i*s.step)*inner
				selected = append(selected, x[at:at+inner]...)
			}
		}
		x, dims[s.axis] = selected, count
	}
	return x, true
}

// evaluateTranspose transposes a matrix.
func (t *types) evaluateTranspose(n *pb.NodeProto, x []symbolicInt) ([]symbolicInt, bool) {
	dims, ok := t.get(n.Input[0]).static()
	if perm := onnx.AttributeInts(n, "perm"); !ok || len(dims) != 2 || perm != nil && perm[0] != 1 {
		return nil, false
	}
	out := make([]symbolicInt, 0, len(x))
	for j := range dims[1] {
		for i := range dims[0] {
			out = append(out, x[i*dims[1]+j])
		}
	}
	return out, true
}
