package autodiff

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// separateOpset is the operator set of backward models of older graphs: late
// enough for all that rules make of them, and early enough that every provider
// has kernels for it.
const separateOpset = 17

// Separate is the gradient of a graph as a model of its own. It reads tensors
// of the forward graph, its activations, and constants, of which it has its
// own copies, so that the forward graph may be of any operator set.
type Separate struct {
	b       *onnx.Builder
	forward *onnx.Graph
	dir     string
}

// Activation is a tensor that a backward model takes from the forward model.
type Activation struct {
	Input  string // of the backward model
	Tensor string // of the forward model
	// Shape says that the tensor's shape is taken, as 1-D int64, and not its
	// elements.
	Shape bool
	// Scalar says that the tensor is known to have no axes.
	Scalar bool
}

// NewSeparate starts a backward model. External data are in dir.
func NewSeparate(forward *onnx.Graph, dir string) *Separate {
	s := &Separate{b: onnx.NewBuilder("backward", max(separateOpset, forward.Opset())), forward: forward, dir: dir}
	s.b.Reserve(forward.Model.GetGraph())
	for _, o := range forward.Model.GetOpsetImport() {
		if !onnx.IsDefault(o.GetDomain()) {
			s.b.Import(o.GetDomain(), o.GetVersion())
		}
	}
	return s
}

// Builder is that of the backward model. Nodes appended to it may read tensors
// of the forward graph by name. Outputs are declared on it after Gradient.
func (s *Separate) Builder() *onnx.Builder { return s.b }

// Gradient is like the function Gradient. Upstream tensors are the backward
// model's, or the forward graph's.
func (s *Separate) Gradient(seeds []Seed, wrt []string, stop ...string) ([]string, error) {
	g := &tape{
		b: s.b, index: s.forward,
		nodes: s.forward.Model.GetGraph().GetNode(),
		types: newTypes(s.forward.Model.GetGraph(), s.forward, s.dir),
		grads: make(map[string]string),
	}
	g.types.continueIn(s.b.Graph())
	out, err := g.sweep(seeds, wrt, stop)
	for i, t := range out {
		if g.exists(t) { // a graph's input can't be its output
			out[i] = g.node("Identity", t)
		}
	}
	return out, err
}

// Model returns the backward model and what it takes of the forward graph, in
// the order of its inputs, which follow those that the builder declared. What
// leads to no output is left out.
func (s *Separate) Model() (*pb.ModelProto, []Activation, error) {
	graph := s.b.Graph()
	prune(graph)
	made := onnx.Made(graph)
	types := newTypes(s.forward.Model.GetGraph(), s.forward, s.dir)
	var taken []Activation
	take := func(a Activation, t tensorType) error {
		if t.elem == pb.TensorProto_UNDEFINED {
			return fmt.Errorf("the element type of tensor %q, which the gradient needs, is not known: "+
				"run the model through onnx.shape_inference", a.Tensor)
		}
		a.Scalar = t.ranked && len(t.dims) == 0
		taken = append(taken, a)
		graph.Input = append(graph.Input, t.info(a.Input))
		made[a.Input] = true
		return nil
	}
	shapes := s.shapesAlone(graph, made)
	for _, n := range graph.Node {
		for i, in := range n.Input {
			if in == "" || made[in] {
				continue
			}
			var err error
			if c, ok := s.forward.Const(in); ok {
				made[in] = true
				c = proto.CloneOf(c)
				c.Name = proto.String(in)
				graph.Initializer = append(graph.Initializer, c)
			} else if name := shapes[in]; name != "" {
				n.OpType, n.Input[i] = proto.String("Identity"), name
				if !made[name] {
					shape := tensorType{elem: pb.TensorProto_INT64, ranked: true, dims: unknown(1)}
					if rank, ok := types.of(in).rank(); ok {
						shape.dims = fixed(int64(rank))
					}
					err = take(Activation{Input: name, Tensor: in, Shape: true}, shape)
				}
			} else {
				t := types.of(in)
				if n := s.forward.Producer(in); t.elem == pb.TensorProto_UNDEFINED && n != nil && len(n.Input) > 0 {
					// Operators that nothing is known of mostly keep the type.
					t.elem = types.of(n.Input[0]).elem
				}
				err = take(Activation{Input: in, Tensor: in}, t)
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	m, err := s.b.Model()
	return m, taken, err
}

// shapesAlone names inputs for the shapes of forward tensors of which nothing
// but the shape is read.
func (s *Separate) shapesAlone(graph *pb.GraphProto, made map[string]bool) map[string]string {
	whole := make(map[string]bool)
	for _, n := range graph.Node {
		for _, in := range n.Input {
			whole[in] = whole[in] || n.GetOpType() != "Shape" || len(n.Attribute) > 0
		}
	}
	shapes := make(map[string]string)
	for _, n := range graph.Node {
		for _, in := range n.Input {
			if _, constant := s.forward.Const(in); in != "" && !constant && !made[in] && !whole[in] && shapes[in] == "" {
				shapes[in] = s.b.Fresh("shape/" + in)
			}
		}
	}
	return shapes
}

// prune removes the nodes and constants that no output needs.
func prune(graph *pb.GraphProto) {
	needed := make(map[string]bool)
	for _, v := range graph.Output {
		needed[v.GetName()] = true
	}
	var kept []*pb.NodeProto
	for _, n := range slices.Backward(graph.Node) {
		if slices.ContainsFunc(n.Output, func(out string) bool { return needed[out] }) {
			kept = append(kept, n)
			for _, in := range onnx.Reads(n) {
				needed[in] = true
			}
		}
	}
	slices.Reverse(kept)
	graph.Node = kept
	graph.Initializer = slices.DeleteFunc(graph.Initializer, func(t *pb.TensorProto) bool { return !needed[t.GetName()] })
}

// Types returns a function that declares tensors of a graph as far as their
// types can be inferred: the element type is UNDEFINED where it is not known.
// External data are in dir.
func Types(g *onnx.Graph, dir string) func(tensor string) *pb.ValueInfoProto {
	t := newTypes(g.Model.GetGraph(), g, dir)
	return func(tensor string) *pb.ValueInfoProto { return t.of(tensor).info(tensor) }
}

// info declares a tensor of the type.
func (t tensorType) info(name string) *pb.ValueInfoProto {
	dims := make([]any, len(t.dims))
	for i, d := range t.dims {
		dims[i] = d.n
		if !d.known() && d.symbol != "" {
			dims[i] = d.symbol
		}
	}
	v := onnx.ValueInfo(name, t.elem, dims...)
	if !t.ranked {
		v.Type.GetTensorType().Shape = nil
	}
	return v
}
