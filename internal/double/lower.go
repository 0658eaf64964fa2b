package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// lowering makes what takes the place of a node's first output.
type lowering func(s *site) string

// Lower replaces, in place, the nodes of a model whose operators have no
// kernel in double precision. types declares tensors as far as their types are
// known. The error for a node that cannot be replaced is an *UnsupportedError.
func Lower(m *pb.ModelProto, types func(tensor string) *pb.ValueInfoProto) error {
	b := onnx.Extend(m)
	b.SetScope("double/")
	index := b.Index()
	nodes := m.Graph.Node
	m.Graph.Node = make([]*pb.NodeProto, 0, 4*len(nodes))
	for _, n := range nodes {
		if err := checkBodies(n); err != nil {
			return err
		}
		rule, kernel := ruleOf(n)
		if kernel || !onReals(n, types) {
			m.Graph.Node = append(m.Graph.Node, n)
			continue
		}
		if rule == nil {
			return check(n)
		}
		if b.Opset() < minOpset {
			return unsupported(n, "its equivalent needs operator set %d or later, the model has %d: convert it with onnx.version_converter", minOpset, b.Opset())
		}
		s := &site{Builder: b, n: n, index: index, types: types}
		out := rule(s)
		if s.err != nil {
			return s.err
		}
		for _, o := range n.Output[1:] {
			if o != "" {
				return unsupported(n, "its output %q is used", o)
			}
		}
		b.Append(onnx.Node{Op: "Identity", Inputs: []string{out}, Outputs: n.Output[:1]})
	}
	return nil
}

// minOpset is the first operator set that has what lowerings are made of.
const minOpset = 11

// onReals says that a node computes with real numbers, or may do so.
func onReals(n *pb.NodeProto, types func(string) *pb.ValueInfoProto) bool {
	for _, t := range slices.Concat(n.GetInput(), n.GetOutput()) {
		switch pb.TensorProto_DataType(types(t).GetType().GetTensorType().GetElemType()) {
		case pb.TensorProto_DOUBLE, pb.TensorProto_UNDEFINED:
			if t != "" {
				return true
			}
		}
	}
	return false
}

// checkBodies refuses graphs within a node that would have to be lowered.
func checkBodies(n *pb.NodeProto) error {
	for _, a := range n.GetAttribute() {
		for _, body := range slices.Concat([]*pb.GraphProto{a.GetG()}, a.GetGraphs()) {
			for _, inner := range body.GetNode() {
				if _, kernel := ruleOf(inner); !kernel {
					return unsupported(inner, "it is inside of %s %q, and ONNX Runtime does not compute it in double precision", n.GetOpType(), n.GetName())
				}
				if err := checkBodies(inner); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// site is a node that is being replaced.
type site struct {
	*onnx.Builder
	n     *pb.NodeProto
	index *onnx.Graph // before
	types func(string) *pb.ValueInfoProto
	err   error
}

func (s *site) fail(format string, args ...any) string {
	if s.err == nil {
		s.err = unsupported(s.n, format, args...)
	}
	return ""
}

// in is the name of input i, "" where it is left out.
func (s *site) in(i int) string {
	if i < len(s.n.Input) {
		return s.n.Input[i]
	}
	return ""
}

func (s *site) node(op string, inputs ...string) string { return s.Node(op, inputs) }

func (s *site) add(a, b string) string { return s.node("Add", a, b) }
func (s *site) sub(a, b string) string { return s.node("Sub", a, b) }
func (s *site) mul(a, b string) string { return s.node("Mul", a, b) }
func (s *site) div(a, b string) string { return s.node("Div", a, b) }

func (s *site) number(v float64) string { return s.Const(v) }

func (s *site) ints(v ...int64) string {
	if v == nil {
		v = []int64{}
	}
	return s.Const(v)
}

func (s *site) times(v float64, x string) string {
	if v == 1 {
		return x
	}
	return s.mul(x, s.number(v))
}

func (s *site) plus(v float64, x string) string { return s.add(x, s.number(v)) }

func (s *site) where(condition, yes, no string) string { return s.node("Where", condition, yes, no) }

func (s *site) attrInt(name string, otherwise int64) int64 {
	return onnx.AttributeInt(s.n, name, otherwise)
}

func (s *site) attrFloat(name string, otherwise float64) float64 {
	if onnx.Attribute(s.n, name) == nil {
		return otherwise
	}
	return float64(onnx.AttributeFloat(s.n, name, 0))
}

// reduce is ReduceMean or another of that family over constant axes, which
// stay as axes of size 1.
func (s *site) reduce(op, x string, axes ...int64) string { return s.along(op, x, 18, axes) }

func (s *site) sum(x string, axes ...int64) string { return s.along("ReduceSum", x, 13, axes) }

func (s *site) squeeze(x string, axis int64) string { return s.along("Squeeze", x, 13, []int64{axis}) }

func (s *site) unsqueeze(x string, axis int64) string {
	return s.along("Unsqueeze", x, 13, []int64{axis})
}

// along is an operator whose axes are an input since an operator set, and were
// an attribute before.
func (s *site) along(op, x string, since int64, axes []int64) string {
	if s.Opset() >= since {
		return s.node(op, x, s.ints(axes...))
	}
	return s.Node(op, []string{x}, onnx.Attr("axes", axes))
}

// pointwise is the rule of a function of one number.
func pointwise(f func(s *site, x string) string) lowering {
	return func(s *site) string { return f(s, s.in(0)) }
}
