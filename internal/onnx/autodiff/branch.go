package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// branch is the graph that an If runs, nil where its condition is not known.
func (t *types) branch(n *pb.NodeProto) *pb.GraphProto {
	if n.GetOpType() != "If" || !onnx.IsDefault(n.GetDomain()) || len(n.Input) != 1 {
		return nil
	}
	condition, ok := t.numbersOf(n.Input[0])
	if !ok || len(condition) != 1 || !condition[0].known {
		return nil
	}
	name := "then_branch"
	if condition[0].n == 0 {
		name = "else_branch"
	}
	body := onnx.Attribute(n, name).GetG()
	return body
}

// inferBranch is that of an If whose branch is known.
func inferBranch(t *types, n *pb.NodeProto) []tensorType {
	body := t.branch(n)
	t.declare(body)
	for _, n := range body.GetNode() {
		if v := onnx.Attribute(n, "value").GetT(); n.GetOpType() == "Constant" && v != nil {
			t.constant(n.Output[0], v)
		}
		t.infer(n)
	}
	out := make([]tensorType, len(body.GetOutput()))
	for i, v := range body.GetOutput() {
		out[i] = t.of(v.GetName())
	}
	return out
}

// unrepeatable says that a node has graphs of its own, or may be random.
func unrepeatable(n *pb.NodeProto) bool {
	switch n.GetOpType() {
	case "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike":
		return true
	}
	return slices.ContainsFunc(n.Attribute, func(a *pb.AttributeProto) bool { return a.GetG() != nil || a.GetGraphs() != nil })
}

// gradBranch computes the branch of an If again, whose inner tensors no other
// node can read, and goes back through it.
func gradBranch(c *call) {
	body := c.types.branch(c.n)
	if slices.ContainsFunc(body.GetNode(), unrepeatable) {
		c.fail("its branch draws random numbers or has graphs of its own")
		return
	}
	copies := make(map[string]string)
	copyOf := func(name string) string {
		if name, ok := copies[name]; ok {
			return name
		}
		return name
	}
	for _, v := range body.GetInitializer() {
		copies[v.GetName()] = c.nodeWith("Constant", nil, onnx.Attr("value", v))
		c.types.constant(copies[v.GetName()], v)
	}
	outer := c.nodes
	defer func() { c.nodes = outer }()
	c.nodes = nil
	for _, n := range body.GetNode() {
		in, out := make([]string, len(n.Input)), make([]string, len(n.Output))
		for i, name := range n.Input {
			in[i] = copyOf(name)
		}
		for i, name := range n.Output {
			if name != "" {
				out[i] = c.b.Fresh(name)
				copies[name] = out[i]
			}
		}
		c.b.Append(onnx.Node{Op: n.GetOpType(), Domain: n.GetDomain(), Inputs: in, Outputs: out, Attrs: n.Attribute})
		c.types.advance()
		if v := onnx.Attribute(n, "value").GetT(); n.GetOpType() == "Constant" && v != nil {
			c.types.constant(out[0], v)
		}
		c.nodes = append(c.nodes, c.b.Graph().Node[len(c.b.Graph().Node)-1])
	}
	c.activate(c.active, nil)
	for i, v := range body.GetOutput() {
		c.accumulate(copyOf(v.GetName()), c.up(i))
	}
	for _, n := range slices.Backward(c.nodes) {
		if c.err = c.backward(n, c.active); c.err != nil {
			return
		}
	}
}
