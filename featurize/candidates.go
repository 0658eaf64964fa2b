package featurize

import (
	"context"
	"slices"
)

// maxCandidates bounds the number of tensors that are suggested as features.
const maxCandidates = 20

// floatOps are operators whose outputs may serve as features. Each of them returns floats
// if its inputs are floats.
var floatOps = []string{
	"Gemm", "MatMul", "Conv", "BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
	"Add", "Sub", "Mul", "Div", "Sum", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Clip", "Tanh", "Sigmoid",
	"Softplus", "HardSwish", "HardSigmoid", "Gelu", "GlobalAveragePool", "GlobalMaxPool", "AveragePool", "MaxPool",
	"ReduceMean", "ReduceMax", "ReduceSum", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Gather",
	"Slice", "Dropout", "LpNormalization", "Max", "Min", "Identity", "Einsum",
}

// candidates lists tensors that could serve as features φ, starting with the one nearest to
// the output.
func (s modelBuilder) candidates(ctx context.Context) []Candidate {
	var names []string
	nodes := s.graph.Model.GetGraph().GetNode()
	for _, n := range slices.Backward(nodes) {
		if !slices.Contains(floatOps, n.GetOpType()) || len(n.GetOutput()) == 0 || s.isConst(n.GetOutput()[0]) {
			continue
		}
		if v := s.graph.Type(n.GetOutput()[0]); v == nil || mayHoldFloats(v) {
			names = append(names, n.GetOutput()[0])
		}
		if len(names) == maxProbed {
			break
		}
	}
	shapes, _ := s.probeShapes(ctx, names)
	var list []Candidate
	for _, name := range names {
		shape, ok := shapes[name]
		if shapes != nil && (!ok || len(shape) < 2 || len(shape) > 5) {
			continue
		}
		n := s.graph.Producer(name)
		list = append(list, Candidate{Tensor: name, Shape: shape, Node: s.graph.NodeName(n), Op: n.GetOpType()})
		if len(list) == maxCandidates {
			break
		}
	}
	return list
}
