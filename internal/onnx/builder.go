package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Builder builds a new graph node by node, or appends nodes to an existing graph.
//
// Tensors are identified by name. Every method that creates a tensor returns a name that is
// unique in the graph. Callers must use that name, because it differs from the requested
// one if the requested one is taken.
//
// Nodes are appended in the order of the calls, so a new graph is sorted topologically.
// Model reports mistakes such as unknown or duplicate names.
type Builder struct {
	model         *pb.ModelProto
	scope         string
	usedNames     map[string]bool
	suffixes      map[string]int
	consts        map[string]string
	constsAsNodes bool // constants are added as Constant nodes, not as initializers
}

// NewBuilder returns a builder for an empty graph that uses the given version of the
// default operator set.
func NewBuilder(name string, opset int64) *Builder {
	return Extend(&pb.ModelProto{
		IrVersion:    proto.Int64(irVersionFor(opset)),
		ProducerName: proto.String("attach"),
		OpsetImport:  []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}},
		Graph:        &pb.GraphProto{Name: proto.String(name)},
	})
}

// Extend returns a builder that appends nodes to the graph of m, in place. To keep m
// unchanged, pass a copy (proto.Clone).
func Extend(m *pb.ModelProto) *Builder {
	if m.Graph == nil {
		m.Graph = &pb.GraphProto{}
	}
	b := &Builder{
		model:     m,
		usedNames: make(map[string]bool),
		suffixes:  make(map[string]int),
		consts:    make(map[string]string),
		// Below IR version 4, every initializer is also an input. Constant nodes leave the
		// model's inputs unchanged.
		constsAsNodes: m.GetIrVersion() < 4,
	}
	b.reserve(m.Graph)
	return b
}

// reserve marks the names in a graph and its subgraphs as used, so that new tensors get
// other names.
func (b *Builder) reserve(g *pb.GraphProto) {
	maps.Copy(b.usedNames, DefinedNames(g))
	for _, v := range g.Output {
		b.usedNames[v.GetName()] = true
	}
	for _, n := range g.Node {
		b.usedNames[n.GetName()] = true
		for _, a := range n.Attribute {
			for _, sub := range subgraphs(a) {
				b.reserve(sub)
			}
		}
	}
}

// SetScope sets a prefix for the names of new tensors and nodes, for example "grad/". It
// returns the previous prefix.
func (b *Builder) SetScope(scope string) (previous string) {
	previous, b.scope = b.scope, scope
	return previous
}

// Opset returns the version of the default operator set.
func (b *Builder) Opset() int64 { return opset(b.model) }

// Graph returns the current graph. Callers must not change it.
func (b *Builder) Graph() *pb.GraphProto { return b.model.Graph }

// Index returns an index of the current graph.
func (b *Builder) Index() *Graph { return newGraph(b.model) }

// Import declares that the model uses an operator set. If the model already imports its
// domain, the version does not change. Import returns the version that the model then uses.
func (b *Builder) Import(domain string, wanted int64) int64 {
	if v := version(b.model, domain); v > 0 {
		return v
	}
	b.model.OpsetImport = append(b.model.OpsetImport,
		&pb.OperatorSetIdProto{Domain: proto.String(domain), Version: proto.Int64(wanted)})
	return wanted
}

// If appends a node that runs one of two subgraphs, and returns the names of the n tensors that
// it returns. cond names a tensor with one boolean. then and otherwise append the nodes of a
// subgraph and return the names of n tensors that these nodes make. They may read tensors of
// the graph.
func (b *Builder) If(cond string, n int, then, otherwise func() []string) []string {
	return b.NodeN(n, "If", []string{cond}, Attr("then_branch", b.subgraph("then", then)), Attr("else_branch", b.subgraph("else", otherwise)))
}

// subgraph returns the graph of the nodes that build appends. Its outputs are the tensors that
// build returns.
func (b *Builder) subgraph(name string, build func() []string) *pb.GraphProto {
	outer, consts, asNodes := b.model.Graph, b.consts, b.constsAsNodes
	sub := &pb.GraphProto{Name: proto.String(name)}
	b.model.Graph, b.consts, b.constsAsNodes = sub, maps.Clone(consts), true
	defer func() { b.model.Graph, b.consts, b.constsAsNodes = outer, consts, asNodes }()
	for _, out := range build() {
		sub.Output = append(sub.Output, &pb.ValueInfoProto{Name: proto.String(out)})
	}
	return sub
}

// Input declares an input of the graph and returns its name. A dimension is an int or int64
// (−1 if unknown) or a string (a symbolic size). Without dimensions, the input is a scalar.
func (b *Builder) Input(name string, t pb.TensorProto_DataType, dims ...any) string {
	name = b.UniqueName(name)
	b.model.Graph.Input = append(b.model.Graph.Input, ValueInfo(name, t, dims...))
	return name
}

// Optional declares an input of the graph with a default value. It makes the requested name
// unique and returns it. Const lists the types that value may have.
func (b *Builder) Optional(name string, value any, dims ...any) string {
	t := Tensor(value)
	name = b.UniqueName(name)
	t.Name = proto.String(name)
	b.model.Graph.Input = append(b.model.Graph.Input, ValueInfo(name, pb.TensorProto_DataType(t.GetDataType()), dims...))
	b.model.Graph.Initializer = append(b.model.Graph.Initializer, t)
	return name
}

// Describe sets the documentation of an input or output of the graph.
func (b *Builder) Describe(name, doc string) {
	for _, v := range append(b.model.Graph.Input[:len(b.model.Graph.Input):len(b.model.Graph.Input)], b.model.Graph.Output...) {
		if v.GetName() == name {
			v.DocString = proto.String(doc)
		}
	}
}

// AddMetadata adds an entry to the model's metadata.
func (b *Builder) AddMetadata(key, value string) {
	b.model.MetadataProps = append(b.model.MetadataProps, &pb.StringStringEntryProto{Key: proto.String(key), Value: proto.String(value)})
}

// Output declares an existing tensor as an output of the graph under its own name.
func (b *Builder) Output(tensor string, t pb.TensorProto_DataType, dims ...any) {
	b.model.Graph.Output = append(b.model.Graph.Output, ValueInfo(tensor, t, dims...))
}

// OutputAs declares an output of the graph that is a copy of tensor. It makes the requested
// name unique and returns it.
func (b *Builder) OutputAs(name, tensor string, t pb.TensorProto_DataType, dims ...any) string {
	name = b.UniqueName(name)
	b.Append(Node{Op: "Identity", Inputs: []string{tensor}, Outputs: []string{name}})
	b.Output(name, t, dims...)
	return name
}

// KeepOutputs removes the outputs of the graph for which keep returns false. It also removes
// nodes, constants and optional inputs that no other output needs.
func (b *Builder) KeepOutputs(keep func(name string) bool) {
	g := b.model.Graph
	needed := make(map[string]bool)
	g.Output = slices.DeleteFunc(g.Output, func(v *pb.ValueInfoProto) bool {
		needed[v.GetName()] = keep(v.GetName())
		return !needed[v.GetName()]
	})
	isNeeded := func(name string) bool { return needed[name] }
	var kept []*pb.NodeProto
	for _, n := range slices.Backward(g.Node) {
		if slices.ContainsFunc(n.GetOutput(), isNeeded) {
			kept = append(kept, n)
			for _, name := range Reads(n) {
				needed[name] = true
			}
		}
	}
	slices.Reverse(kept)
	g.Node = kept
	unused := make(map[string]bool)
	g.Initializer = slices.DeleteFunc(g.Initializer, func(t *pb.TensorProto) bool {
		unused[t.GetName()] = !needed[t.GetName()]
		return unused[t.GetName()]
	})
	g.Input = slices.DeleteFunc(g.Input, func(v *pb.ValueInfoProto) bool { return unused[v.GetName()] })
}

// Node describes a node for Builder.Append.
type Node struct {
	Op     string
	Domain string // "" means the default operator set
	Name   string // "" derives a name from Op
	Inputs []string
	// Outputs are names from Builder.UniqueName, or "" for an unused output. Nil means one
	// output with a derived name.
	Outputs []string
	Attrs   []*pb.AttributeProto
}

// Append appends a node and returns the names of its outputs.
func (b *Builder) Append(n Node) []string {
	hint := n.Name
	if hint == "" {
		hint = n.Op
	}
	outputs := n.Outputs
	if outputs == nil {
		outputs = []string{b.UniqueName(hint)}
	}
	p := &pb.NodeProto{
		OpType:    proto.String(n.Op),
		Name:      proto.String(b.UniqueName("node/" + hint)),
		Input:     append([]string(nil), n.Inputs...),
		Output:    append([]string(nil), outputs...),
		Attribute: n.Attrs,
	}
	if !IsDefault(n.Domain) {
		p.Domain = proto.String(n.Domain)
	}
	b.model.Graph.Node = append(b.model.Graph.Node, p)
	return outputs
}

// Node appends a node of the default operator set that has one output. It returns the name
// of the output.
func (b *Builder) Node(op string, inputs []string, attrs ...*pb.AttributeProto) string {
	return b.Append(Node{Op: op, Inputs: inputs, Attrs: attrs})[0]
}

// NodeN appends a node of the default operator set that has n outputs. It returns their
// names.
func (b *Builder) NodeN(n int, op string, inputs []string, attrs ...*pb.AttributeProto) []string {
	outputs := make([]string, n)
	for i := range outputs {
		outputs[i] = b.UniqueName(op)
	}
	return b.Append(Node{Op: op, Inputs: inputs, Outputs: outputs, Attrs: attrs})
}

// Const adds a constant and returns its name. Equal constants share one name. value is a
// float32, float64, int64, int32 or bool, or a slice of one of them, in row-major order. An
// int is stored as an int64. A slice without dims is a vector.
func (b *Builder) Const(value any, dims ...int64) string {
	t := Tensor(value, dims...)
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		panic("onnx: " + err.Error())
	}
	if name, ok := b.consts[string(key)]; ok {
		return name
	}
	name := b.addConst(constName(value), t)
	b.consts[string(key)] = name
	return name
}

// Initializer adds a constant. It makes the requested name unique and returns it. Const
// lists the types that value may have.
func (b *Builder) Initializer(name string, value any, dims ...int64) string {
	return b.addConst(name, Tensor(value, dims...))
}

func (b *Builder) addConst(hint string, t *pb.TensorProto) string {
	name := b.UniqueName(hint)
	t.Name = proto.String(name)
	if !b.constsAsNodes {
		b.model.Graph.Initializer = append(b.model.Graph.Initializer, t)
		return name
	}
	return b.Append(Node{Op: "Constant", Outputs: []string{name}, Attrs: []*pb.AttributeProto{Attr("value", t)}})[0]
}

// constName returns a name for a constant. The name of a scalar contains its value, for
// example "const_2".
func constName(value any) string {
	switch v := value.(type) {
	case float32, float64, int64, int32, int, bool:
		return fmt.Sprintf("const_%v", v)
	}
	return "const"
}

// UniqueName returns a name that no tensor or node of the graph has, and reserves it.
func (b *Builder) UniqueName(hint string) string {
	base := b.scope + hint
	name := base
	for name == "" || b.usedNames[name] {
		b.suffixes[base]++
		name = base + "_" + strconv.Itoa(b.suffixes[base])
	}
	b.usedNames[name] = true
	return name
}

// Rename changes the name of the output of the last node. It makes the new name unique and
// returns it.
func (b *Builder) Rename(tensor, name string) string {
	node := b.model.Graph.Node[len(b.model.Graph.Node)-1]
	if len(node.Output) != 1 || node.Output[0] != tensor {
		panic("onnx: the last node has no output " + tensor)
	}
	node.Output[0] = b.UniqueName(name)
	return node.Output[0]
}

// Model returns the model. It returns an error if a node reads a tensor that no earlier
// node produces, if a name is not unique, if an output does not exist, or if a domain is
// not imported.
func (b *Builder) Model() (*pb.ModelProto, error) {
	if err := checkGraph(b.model); err != nil {
		return nil, err
	}
	return b.model, nil
}

// irVersionFor returns the IR version that was released with an operator set, but at least
// 4. Below version 4, every initializer would have to be an input. For operator set 9, it
// returns 5 instead of 4.
func irVersionFor(opset int64) int64 {
	ir := int64(4)
	for _, last := range []int64{8, 10, 11, 14, 18, 20, 22, 24} { // the last operator set of each IR version
		if opset > last {
			ir++
		}
	}
	return ir
}

// checkGraph returns an error for the first mistake that Model checks for.
func checkGraph(m *pb.ModelProto) error {
	domains := make(map[string]bool)
	for _, o := range m.OpsetImport {
		domains[canonicalDomain(o.GetDomain())] = true
	}
	g := m.Graph
	producedBy := make(map[string]string)
	claim := func(name, by string) error {
		if other, ok := producedBy[name]; ok {
			return fmt.Errorf("onnx: tensor %q is produced twice, by %s and by %s", name, other, by)
		}
		producedBy[name] = by
		return nil
	}
	for _, t := range g.Initializer {
		if err := claim(t.GetName(), "an initializer"); err != nil {
			return err
		}
	}
	for _, v := range g.Input {
		if producedBy[v.GetName()] == "an initializer" {
			continue // an input whose default value is the initializer
		}
		if err := claim(v.GetName(), "an input"); err != nil {
			return err
		}
	}
	for _, t := range g.SparseInitializer {
		if err := claim(t.GetValues().GetName(), "a sparse initializer"); err != nil {
			return err
		}
	}
	for i, n := range g.Node {
		node := fmt.Sprintf("node %d (%s %q)", i, n.GetOpType(), n.GetName())
		if domain := canonicalDomain(n.GetDomain()); !domains[domain] {
			return fmt.Errorf("onnx: %s uses domain %q, which the model does not import", node, domain)
		}
		for _, in := range n.Input {
			if _, ok := producedBy[in]; in != "" && !ok {
				return fmt.Errorf("onnx: %s reads tensor %q, which no earlier node produces", node, in)
			}
		}
		for _, out := range n.Output {
			if out == "" {
				continue
			}
			if err := claim(out, node); err != nil {
				return err
			}
		}
	}
	var missing []string
	for _, v := range g.Output {
		if _, ok := producedBy[v.GetName()]; !ok {
			missing = append(missing, strconv.Quote(v.GetName()))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("onnx: no node produces the output %s", strings.Join(missing, ", "))
	}
	return nil
}
