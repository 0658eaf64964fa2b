package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// number is an element of a small integer tensor, as far as it is known before the graph runs.
type number struct {
	n      int64
	known  bool
	symbol string // means the same number everywhere in the graph
	size   bool   // the size of an axis, so not negative
}

// maxNumbers limits the length of tensors whose elements are tracked, because shapes are short.
const maxNumbers = 32

func (d dimension) number() number {
	return number{n: d.n, known: d.known(), symbol: d.symbol, size: true}
}

func (v number) dimension() dimension {
	if v.known && v.n >= 0 {
		return dimension{n: v.n}
	}
	return dimension{n: -1, symbol: v.symbol}
}

// numbersOf returns the elements of an integer tensor.
func (t *types) numbersOf(tensor string) ([]number, bool) {
	if v, ok := t.numbers[tensor]; ok {
		return v, true
	}
	if size, ok := t.of(tensor).size(); !ok || size > maxNumbers {
		return nil, false
	}
	ints, ok := t.intsOf(tensor)
	if !ok {
		return nil, false
	}
	v := make([]number, len(ints))
	for i, n := range ints {
		v[i] = number{n: n, known: true}
	}
	return v, true
}

// evaluate tracks shape arithmetic, so that shapes computed by the graph are known if possible.
func (t *types) evaluate(n *pb.NodeProto) {
	if !onnx.IsDefault(n.GetDomain()) || len(n.Output) != 1 {
		return
	}
	if v, ok := t.result(n); ok && len(v) <= maxNumbers {
		t.numbers[n.Output[0]] = v
	}
}

func (t *types) result(n *pb.NodeProto) ([]number, bool) {
	switch n.GetOpType() {
	case "Shape":
		return t.shapeNumbers(n)
	case "ConstantOfShape":
		return t.filledNumbers(n)
	}
	if t.differentiable(n.Output[0]) {
		return nil, false
	}
	in := make([][]number, len(n.Input))
	for i, name := range n.Input {
		v, ok := t.numbersOf(name)
		if !ok && name != "" {
			return nil, false
		}
		in[i] = v
	}
	switch op := n.GetOpType(); op {
	case "Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Expand":
		if op == "Expand" && len(in[0]) > 0 {
			if size, ok := t.of(n.Output[0]).size(); !ok || size != int64(len(in[0])) {
				return nil, false
			}
		}
		return in[0], true
	case "Concat":
		var all []number
		for _, v := range in {
			all = append(all, v...)
		}
		return all, true
	case "Gather":
		return gatherNumbers(in[0], in[1])
	case "Slice":
		return t.sliceNumbers(n, in[0])
	case "Transpose":
		return t.transposeNumbers(n, in[0])
	case "Where":
		return broadcastNumbers(func(v []number) number { return v[0].choose(v[1], v[2]) }, in...)
	case "Add", "Div", "Equal", "Max", "Min", "Mod", "Mul", "Sub":
		if len(in) == 2 {
			return broadcastNumbers(func(v []number) number { return combine(op, v[0], v[1]) }, in...)
		}
	}
	return nil, false
}

func (t *types) shapeNumbers(n *pb.NodeProto) ([]number, bool) {
	x := t.of(n.Input[0])
	if !x.ranked {
		return nil, false
	}
	s := span{start: onnx.AttributeInt(n, "start", 0), end: onnx.AttributeInt(n, "end", int64(len(x.dims)))}
	start, end := s.clamp(int64(len(x.dims)))
	v := []number{}
	for ; start < end; start++ {
		v = append(v, x.dims[start].number())
	}
	return v, true
}

func (t *types) filledNumbers(n *pb.NodeProto) ([]number, bool) {
	a := onnx.Attribute(n, "value")
	size, ok := t.of(n.Output[0]).size()
	if a.GetT() == nil || !ok || size > maxNumbers {
		return nil, false
	}
	value, _, err := onnx.Int64s(a.GetT(), t.dir)
	if err != nil || len(value) != 1 {
		return nil, false
	}
	v := make([]number, size)
	for i := range v {
		v[i] = number{n: value[0], known: true}
	}
	return v, true
}

func gatherNumbers(x, at []number) ([]number, bool) {
	out := make([]number, len(at))
	for i, a := range at {
		k := wrap(a.n, int64(len(x)))
		if !a.known || k < 0 || k >= int64(len(x)) {
			return nil, false
		}
		out[i] = x[k]
	}
	return out, true
}

func (t *types) sliceNumbers(n *pb.NodeProto, x []number) ([]number, bool) {
	dims, ok := t.of(n.Input[0]).static()
	cut, known := t.cut(n, len(dims))
	if !ok || !known {
		return nil, false
	}
	for _, s := range cut {
		first, count := s.taken(dims[s.axis])
		var kept []number
		behind := int64(1)
		for _, d := range dims[s.axis+1:] {
			behind *= d
		}
		for row := int64(0); row < int64(len(x)); row += behind * dims[s.axis] {
			for i := range count {
				at := row + (first+i*s.step)*behind
				kept = append(kept, x[at:at+behind]...)
			}
		}
		x, dims[s.axis] = kept, count
	}
	return x, true
}

// transposeNumbers transposes a matrix.
func (t *types) transposeNumbers(n *pb.NodeProto, x []number) ([]number, bool) {
	dims, ok := t.of(n.Input[0]).static()
	if perm := onnx.AttributeInts(n, "perm"); !ok || len(dims) != 2 || perm != nil && perm[0] != 1 {
		return nil, false
	}
	out := make([]number, 0, len(x))
	for j := range dims[1] {
		for i := range dims[0] {
			out = append(out, x[i*dims[1]+j])
		}
	}
	return out, true
}
