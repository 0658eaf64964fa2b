package featurize

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// constants finds the tensors that do not depend on the model's inputs, and their values. A
// value that is stored in the file is read from there. ONNX Runtime computes other values,
// for example a transposed, cast or dequantised weight.
type constants struct {
	graph   *onnx.Graph
	dir     string
	runtime *ort.Runtime
	memo    map[string]bool
}

// newConstants returns the constants of a graph. dir is the folder of the model's external
// weights. Inputs are not constants, even if they have a default.
func newConstants(g *onnx.Graph, dir string, rt *ort.Runtime, inputs ...input) *constants {
	k := &constants{graph: g, dir: dir, runtime: rt, memo: map[string]bool{"": true}}
	for _, v := range g.Inputs() {
		k.memo[v.GetName()] = false
	}
	for _, in := range inputs { // inputs with a default are not constant either, because rows may replace them
		k.memo[in.name] = false
	}
	return k
}

// isConst reports whether a tensor is constant.
func (k *constants) isConst(tensor string) bool {
	if v, ok := k.memo[tensor]; ok {
		return v
	}
	if _, ok := k.graph.Const(tensor); ok {
		k.memo[tensor] = true
		return true
	}
	k.memo[tensor] = false // ends the recursion if the graph has a cycle
	n := k.graph.Producer(tensor)
	if n == nil || strings.HasPrefix(n.GetOpType(), "Random") || slices.Contains([]string{"Bernoulli", "Multinomial"}, n.GetOpType()) {
		return false
	}
	for _, in := range onnx.Reads(n) {
		if !k.isConst(in) {
			return false
		}
	}
	k.memo[tensor] = true
	return true
}

// value returns the elements of a constant in row-major order, and its shape.
func (k *constants) value(ctx context.Context, tensor string) ([]float32, []int64, error) {
	if t, ok := k.graph.Const(tensor); ok {
		return onnx.Float32s(t, k.dir)
	}
	// The binding of ONNX Runtime requires at least one input, so the graph gets an input
	// that no node reads.
	const name, floatName, oneName, unusedName = "attach/constant", "attach/constant/float32", "attach/constant/one", "attach/unused"
	body := &pb.GraphProto{
		Input: []*pb.ValueInfoProto{onnx.ValueInfo(unusedName, pb.TensorProto_FLOAT, 1)},
		Node: []*pb.NodeProto{
			node("Cast", []string{tensor}, floatName, onnx.Attr("to", pb.TensorProto_FLOAT)),
			// The binding cannot return scalars, so the product with a vector of length 1
			// turns a scalar into a vector.
			node("Constant", nil, oneName, onnx.Attr("value", onnx.Tensor([]float32{1}))),
			node("Mul", []string{floatName, oneName}, name),
		},
		Output: []*pb.ValueInfoProto{{Name: new(name)}},
	}
	s, err := k.runtime.NewSession(ctx, ort.Model{Proto: subgraph(k.graph, nil, body, tensor), Dir: k.dir}, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot compute constant %q: %w", tensor, err)
	}
	defer s.Close()
	x, err := newTensor([]int{1}, []float32{0})
	if err != nil {
		return nil, nil, err
	}
	defer x.Close()
	out, err := s.Run(ctx, []*ort.Tensor{x})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot compute constant %q: %w", tensor, err)
	}
	defer out[0].Close()
	return slices.Clone(out[0].Float32s()), slices.Clone(out[0].Shape()), nil
}
