package double

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// arithmetic is what a graph computes with sizes in single precision on the
// way to integers, as exporters have it for the size of an upsampled image:
// Cast of a Shape to float32, Mul, Floor, Cast to int64. It stays as it is,
// since another rounding would be another size.
type arithmetic struct {
	index *onnx.Graph // of the graph before it is changed
	kinds map[string]kind
	stays map[*pb.NodeProto]bool
}

// kind is what a tensor follows from.
type kind int

const (
	values   kind = iota // the values of the inputs, perhaps
	constant             // nothing
	whole                // shapes; it holds integers
	real                 // shapes; it holds single-precision numbers
)

func arithmeticOf(g *pb.GraphProto) *arithmetic {
	a := &arithmetic{
		index: onnx.Extend(&pb.ModelProto{Graph: g}).Index(),
		kinds: make(map[string]kind), stays: make(map[*pb.NodeProto]bool),
	}
	for _, n := range g.Node {
		k := a.made(n)
		for _, out := range n.Output {
			a.kinds[out] = k
		}
		a.stays[n] = k == real
	}
	// What else its numbers go into is computed in double precision, and so
	// are they.
	for again := true; again; {
		again = false
		for n, stays := range a.stays {
			if stays && !a.endsInSizes(n) {
				a.stays[n], again = false, true
			}
		}
	}
	return a
}

func (a *arithmetic) kindOf(tensor string) kind {
	if _, ok := a.index.Const(tensor); ok || tensor == "" {
		return constant
	}
	return a.kinds[tensor]
}

func (a *arithmetic) made(n *pb.NodeProto) kind {
	most := constant
	for _, in := range onnx.Reads(n) {
		k := a.kindOf(in)
		if k == values {
			most = values
			break
		}
		most = max(most, k)
	}
	switch op := n.GetOpType(); {
	case op == "Shape" || op == "Size":
		return whole
	case most == values || most == constant || op == "ConstantOfShape" || op == "EyeLike":
		return values
	case op == "Cast" && onnx.AttributeInt(n, "to", 0) == int64(pb.TensorProto_FLOAT):
		return real
	case op == "Cast" && single(int32(onnx.AttributeInt(n, "to", 0))):
		return values
	case op == "Cast" || decides(n):
		return whole
	}
	return most
}

// decides says that a node compares numbers, or asks for a place.
func decides(n *pb.NodeProto) bool {
	switch n.GetOpType() {
	case "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "NonZero":
		return true
	}
	return false
}

// endsInSizes says that a node's numbers go into the arithmetic alone.
func (a *arithmetic) endsInSizes(n *pb.NodeProto) bool {
	for _, out := range n.Output {
		if a.index.IsOutput(out) {
			return false
		}
		for _, reader := range a.index.Consumers(out) {
			becomes := values
			if len(reader.Output) > 0 {
				becomes = a.kinds[reader.Output[0]]
			}
			i := slot(reader)
			if !a.stays[reader] && becomes != whole && (i < 0 || reader.Input[i] != out) {
				return false
			}
		}
	}
	return true
}

// inputs are those inputs of the arithmetic's nodes, and of those that compare
// its numbers, that Promote makes double.
func (a *arithmetic) inputs(g *pb.GraphProto) map[*pb.NodeProto][]int {
	inputs := make(map[*pb.NodeProto][]int)
	for _, n := range g.Node {
		single := a.stays[n]
		for _, in := range n.Input {
			single = single || decides(n) && a.stays[a.index.Producer(in)]
		}
		for i, in := range n.Input {
			if single && a.widened(in) {
				inputs[n] = append(inputs[n], i)
			}
		}
	}
	return inputs
}

// widened says that Promote makes a tensor double that the arithmetic reads.
func (a *arithmetic) widened(tensor string) bool {
	if t, ok := a.index.Const(tensor); ok {
		return single(t.GetDataType())
	}
	return a.kinds[tensor] == real && !a.stays[a.index.Producer(tensor)]
}
