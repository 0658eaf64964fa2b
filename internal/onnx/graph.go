// Package onnx reads ONNX models, indexes them, and builds new ones.
//
// A model is kept as its protobuf message. This preserves parts that this package does not
// know, such as newer IR versions, newer operator sets and unknown fields.
package onnx

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Graph is an index of a model's main graph. It finds the node that produces a tensor, the
// nodes that read it, and the values of constants. It is safe for concurrent use if no
// goroutine changes Model.
type Graph struct {
	Model *pb.ModelProto

	producer     map[string]*pb.NodeProto
	consumers    map[string][]*pb.NodeProto
	consts       map[string]*pb.TensorProto
	sparseConsts map[string]bool
	nodeIndex    map[*pb.NodeProto]int
	types        map[string]*pb.ValueInfoProto
}

// newGraph indexes the main graph of m.
func newGraph(m *pb.ModelProto) *Graph {
	body := m.GetGraph()
	g := &Graph{
		Model:        m,
		producer:     make(map[string]*pb.NodeProto, len(body.GetNode())),
		consumers:    make(map[string][]*pb.NodeProto, len(body.GetNode())),
		consts:       make(map[string]*pb.TensorProto, len(body.GetInitializer())),
		sparseConsts: make(map[string]bool),
		nodeIndex:    make(map[*pb.NodeProto]int, len(body.GetNode())),
		types:        make(map[string]*pb.ValueInfoProto),
	}
	for _, t := range body.GetInitializer() {
		g.consts[t.GetName()] = t
	}
	for _, t := range body.GetSparseInitializer() {
		g.sparseConsts[t.GetValues().GetName()] = true
	}
	for _, list := range [][]*pb.ValueInfoProto{body.GetValueInfo(), body.GetInput(), body.GetOutput()} {
		for _, v := range list {
			g.types[v.GetName()] = v
		}
	}
	for i, n := range body.GetNode() {
		g.nodeIndex[n] = i
		for _, out := range n.GetOutput() {
			if out != "" {
				g.producer[out] = n
			}
		}
		seen := make(map[string]bool)
		for _, in := range Reads(n) {
			if in != "" && !seen[in] {
				seen[in] = true
				g.consumers[in] = append(g.consumers[in], n)
			}
		}
		if t := constantNode(n); t != nil {
			g.consts[n.GetOutput()[0]] = t
		}
	}
	g.followIdentities()
	return g
}

// followIdentities marks the outputs of Identity nodes as constants if their inputs are
// constants. It visits every node only once, because a chain of Identity nodes may be as
// long as the graph.
func (g *Graph) followIdentities() {
	visited := make(map[*pb.NodeProto]bool)
	for _, n := range g.Model.GetGraph().GetNode() {
		var outputs []string
		source := ""
		for n != nil && n.GetOpType() == "Identity" && len(n.GetInput()) == 1 && len(n.GetOutput()) == 1 && !visited[n] {
			visited[n] = true
			outputs = append(outputs, n.GetOutput()[0])
			source = n.GetInput()[0]
			n = g.producer[source]
		}
		if t, ok := g.consts[source]; ok {
			for _, tensor := range outputs {
				g.consts[tensor] = t
			}
		}
	}
}

// Producer returns the node that produces a tensor. It returns nil for inputs, initializers
// and unknown names.
func (g *Graph) Producer(tensor string) *pb.NodeProto { return g.producer[tensor] }

// Consumers returns the nodes that read a tensor, in the graph's order and without
// duplicates. If the subgraph of an If, Loop or Scan reads the tensor, that If, Loop or
// Scan is a consumer.
func (g *Graph) Consumers(tensor string) []*pb.NodeProto { return g.consumers[tensor] }

// Opset returns the version of the default operator set, or 0 if the model does not import
// it.
func (g *Graph) Opset() int64 { return opset(g.Model) }

func opset(m *pb.ModelProto) int64 { return version(m, "") }

// version returns the version of the operator set that a model imports for a domain, or 0.
func version(m *pb.ModelProto, domain string) int64 {
	for _, o := range m.GetOpsetImport() {
		if canonicalDomain(o.GetDomain()) == canonicalDomain(domain) {
			return o.GetVersion()
		}
	}
	return 0
}

// IsDefault reports whether a domain is the default operator set.
func IsDefault(domain string) bool { return canonicalDomain(domain) == "" }

// canonicalDomain returns the name of an operator-set domain. The default domain has two
// names, and canonicalDomain returns "" for both.
func canonicalDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// Const returns the value of a constant tensor: an initializer or the output of a Constant
// node, possibly through Identity nodes. Initializers that are also inputs count as
// constants. Below IR version 4, all initializers are inputs.
func (g *Graph) Const(tensor string) (*pb.TensorProto, bool) {
	t, ok := g.consts[tensor]
	return t, ok
}

// Inputs returns the required inputs of the graph. It leaves out inputs with an
// initializer, because they are optional.
func (g *Graph) Inputs() []*pb.ValueInfoProto {
	var in []*pb.ValueInfoProto
	for _, v := range g.Model.GetGraph().GetInput() {
		if _, ok := g.consts[v.GetName()]; !ok && !g.sparseConsts[v.GetName()] {
			in = append(in, v)
		}
	}
	return in
}

// Outputs returns the outputs of the graph.
func (g *Graph) Outputs() []*pb.ValueInfoProto { return g.Model.GetGraph().GetOutput() }

// Type returns the declaration of a tensor in the model, or nil.
func (g *Graph) Type(tensor string) *pb.ValueInfoProto { return g.types[tensor] }

// NodeName returns a node's name. For an unnamed node it returns the operator and the
// node's index, for example Gemm_12.
func (g *Graph) NodeName(n *pb.NodeProto) string {
	if name := n.GetName(); name != "" {
		return name
	}
	return fmt.Sprintf("%s_%d", n.GetOpType(), g.nodeIndex[n])
}

// Reads returns the names of the tensors that a node reads: its inputs, and tensors of the
// outer graph that its subgraphs use.
func Reads(n *pb.NodeProto) []string {
	in := n.GetInput()
	for _, a := range n.GetAttribute() {
		for _, body := range subgraphs(a) {
			in = append(in[:len(in):len(in)], capturedNames(body)...)
		}
	}
	return in
}

// subgraphs returns the graphs that an attribute contains.
func subgraphs(a *pb.AttributeProto) []*pb.GraphProto {
	if a.GetG() == nil {
		return a.GetGraphs()
	}
	return append([]*pb.GraphProto{a.GetG()}, a.GetGraphs()...)
}

// DefinedNames returns the names of the tensors that a graph defines: its inputs, its
// constants and the outputs of its nodes.
func DefinedNames(g *pb.GraphProto) map[string]bool {
	names := make(map[string]bool)
	for _, v := range g.GetInput() {
		names[v.GetName()] = true
	}
	for _, t := range g.GetInitializer() {
		names[t.GetName()] = true
	}
	for _, t := range g.GetSparseInitializer() {
		names[t.GetValues().GetName()] = true
	}
	for _, n := range g.GetNode() {
		for _, out := range n.GetOutput() {
			names[out] = true
		}
	}
	return names
}

// capturedNames returns the names of the outer graph's tensors that a subgraph reads.
func capturedNames(body *pb.GraphProto) []string {
	local := DefinedNames(body)
	var outer []string
	for _, n := range body.GetNode() {
		for _, in := range Reads(n) {
			if !local[in] {
				outer = append(outer, in)
			}
		}
	}
	for _, v := range body.GetOutput() {
		if !local[v.GetName()] {
			outer = append(outer, v.GetName())
		}
	}
	return outer
}

// constantNode returns the value of a Constant node, or nil for other nodes.
func constantNode(n *pb.NodeProto) *pb.TensorProto {
	if n.GetOpType() != "Constant" || len(n.GetOutput()) != 1 {
		return nil
	}
	for _, a := range n.GetAttribute() {
		switch a.GetName() {
		case "value":
			return a.GetT()
		case "value_float":
			return &pb.TensorProto{DataType: new(int32(pb.TensorProto_FLOAT)), FloatData: []float32{a.GetF()}}
		case "value_floats":
			return &pb.TensorProto{DataType: new(int32(pb.TensorProto_FLOAT)), Dims: []int64{int64(len(a.GetFloats()))}, FloatData: a.GetFloats()}
		case "value_int":
			return &pb.TensorProto{DataType: new(int32(pb.TensorProto_INT64)), Int64Data: []int64{a.GetI()}}
		case "value_ints":
			return &pb.TensorProto{DataType: new(int32(pb.TensorProto_INT64)), Dims: []int64{int64(len(a.GetInts()))}, Int64Data: a.GetInts()}
		case "value_string":
			return &pb.TensorProto{DataType: new(int32(pb.TensorProto_STRING)), StringData: [][]byte{a.GetS()}}
		case "value_strings":
			return &pb.TensorProto{DataType: new(int32(pb.TensorProto_STRING)), Dims: []int64{int64(len(a.GetStrings()))}, StringData: a.GetStrings()}
		}
	}
	return nil
}
