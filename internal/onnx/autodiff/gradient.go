package autodiff

import (
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Seed is a tensor to differentiate, and its weight.
type Seed struct {
	// Output is the name of any tensor of the graph. It need not be an output of the graph.
	Output string
	// Upstream is the name of a tensor of Output's shape: the gradient of the final scalar
	// with respect to Output. "" means ones, which differentiates the sum of Output.
	Upstream string
}

// ErrNoPath is wrapped by the error for a tensor without a gradient. Either the outputs do
// not depend on the tensor, or only through operators that are constant almost everywhere.
var ErrNoPath = errors.New("no differentiable path")

// UnsupportedError reports an operator through which a gradient cannot pass. Either the
// operator has no rule, or its rule does not support the form of the node.
type UnsupportedError struct {
	Op, Domain string
	Node       string // name of the node
	Reason     string // "" if the operator has no rule
}

func (e *UnsupportedError) Error() string {
	op := e.Op
	if e.Domain != "" {
		op = e.Domain + "." + op
	}
	reason := e.Reason
	if reason == "" {
		reason = "the operator has no gradient rule"
	}
	return fmt.Sprintf("cannot differentiate %s (node %q): %s", op, e.Node, reason)
}

// Gradient appends to the graph of b the gradients of Σ upstream·output over all seeds,
// with respect to each tensor in wrt. It returns the names of the gradients in the order of
// wrt. A gradient has the shape and type of its tensor. wrt may name inputs, initializers
// and inner tensors.
//
// dir is the folder of the graph's external data. Tensors in stop count as constants, so
// gradients do not pass through them.
//
// If an operator cannot be differentiated, the error is an *UnsupportedError. If the
// outputs do not depend on a tensor in wrt, the error wraps ErrNoPath. After an error, the
// graph may contain unused nodes. Gradient panics if onnx.Upgrade would change the graph.
func Gradient(b *onnx.Builder, dir string, seeds []Seed, wrt []string, stop ...string) ([]string, error) {
	if b.Opset() < onnx.TargetOpset {
		panic(fmt.Sprintf("autodiff: a graph of operator set %d, which onnx.Upgrade must convert first", b.Opset()))
	}
	m, err := b.Model()
	if err != nil {
		return nil, err
	}
	index := b.Index()
	g := &tape{
		b: b, index: index,
		nodes: m.Graph.Node[:len(m.Graph.Node):len(m.Graph.Node)],
		types: newTypes(b.Graph(), index, dir),
		grads: make(map[string]string),
	}
	return g.sweep(seeds, wrt, stop)
}

// tape is the state of one reverse sweep over the graph.
type tape struct {
	b     *onnx.Builder // builder that appends the gradient
	index *onnx.Graph   // index of the graph before the sweep
	nodes []*pb.NodeProto
	types *types
	grads map[string]string // gradient accumulated so far, by tensor
}

// sweep computes the gradients of seeds with respect to wrt.
func (g *tape) sweep(seeds []Seed, wrt, stop []string) ([]string, error) {
	defer g.b.SetScope(g.b.SetScope("grad/"))
	active := g.activeTensors(wrt, stop)
	for _, s := range seeds {
		if !g.hasTensor(s.Output) {
			return nil, fmt.Errorf("the graph has no tensor %q to differentiate", s.Output)
		}
		upstream := s.Upstream
		if upstream == "" {
			upstream = g.onesLike(s.Output)
		}
		g.accumulate(s.Output, upstream)
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		if err := g.backward(g.nodes[i], active); err != nil {
			return nil, g.rootCause(i, active, err)
		}
	}
	out := make([]string, len(wrt))
	for i, t := range wrt {
		if !g.hasTensor(t) {
			return nil, fmt.Errorf("the graph has no tensor %q to differentiate by", t)
		}
		if g.grads[t] == "" {
			return nil, fmt.Errorf("gradient with respect to %q: %w from it to the output", t, ErrNoPath)
		}
		out[i] = g.grads[t]
	}
	return out, nil
}

// hasTensor reports whether the graph has a tensor of this name.
func (g *tape) hasTensor(tensor string) bool {
	if g.index.Producer(tensor) != nil || g.index.Type(tensor) != nil {
		return true
	}
	_, ok := g.index.Const(tensor)
	return ok
}

// activeTensors returns wrt and the tensors that depend on wrt through operators that carry
// gradients, but not through tensors in stop.
func (g *tape) activeTensors(wrt, stop []string) map[string]bool {
	active, stopped := make(map[string]bool), make(map[string]bool)
	for _, t := range wrt {
		active[t] = true
	}
	for _, t := range stop {
		stopped[t] = true
	}
	for _, n := range g.nodes {
		if stopsGradient(n) {
			continue
		}
		for _, in := range onnx.Reads(n) {
			if !active[in] {
				continue
			}
			for i, out := range n.Output {
				if !stopped[out] && g.carriesGradient(n, i, active) {
					active[out] = true
				}
			}
			break
		}
	}
	return active
}

// backward applies the rule of a node if the node is on a path from wrt to the seeds.
func (g *tape) backward(n *pb.NodeProto, active map[string]bool) error {
	hasGradient, needed := false, false
	for _, out := range n.Output {
		hasGradient = hasGradient || active[out] && g.grads[out] != ""
	}
	for _, in := range onnx.Reads(n) {
		needed = needed || active[in]
	}
	if !hasGradient || !needed || stopsGradient(n) {
		return nil
	}
	c := &call{tape: g, n: n, active: active}
	r := g.ruleOf(n)
	switch {
	case r == nil:
		return c.unsupported(unsupportedReason(n))
	case g.hasActiveIntegers(n, active) && !takesIntegers[n.GetOpType()]:
		return c.unsupported("it computes with quantized numbers")
	}
	r(c)
	return c.err
}

// rootCause returns the error that explains err, the error of the rule of node i. An
// operator without a rule has outputs of unknown type, and these make the rules of later
// nodes fail. If such an operator is on the path from node i to wrt, rootCause returns its
// error. Otherwise it returns err.
func (g *tape) rootCause(i int, active map[string]bool, err error) error {
	feeding := make(map[string]bool)
	for ; i >= 0; i-- {
		n := g.nodes[i]
		onPath := len(feeding) == 0 // node i failed
		for _, out := range n.Output {
			onPath = onPath || feeding[out]
		}
		if !onPath || stopsGradient(n) {
			continue
		}
		if len(feeding) > 0 && g.ruleOf(n) == nil {
			return (&call{tape: g, n: n}).unsupported(unsupportedReason(n))
		}
		for _, in := range onnx.Reads(n) {
			if active[in] {
				feeding[in] = true
			}
		}
	}
	return err
}

// accumulate adds to the gradient of a tensor. A gradient of "" adds nothing.
func (g *tape) accumulate(tensor, gradient string) {
	if gradient == "" {
		return
	}
	if sum := g.grads[tensor]; sum != "" {
		gradient = g.node("Add", sum, gradient)
	}
	g.grads[tensor] = gradient
}
