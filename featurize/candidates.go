package featurize

import (
	"context"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// maxCandidates bounds the list of tensors that could serve as φ.
const maxCandidates = 20

// maxProbed bounds the tensors that one run gives the shapes of: the runtime
// loads a graph in a time that grows faster than its outputs.
const maxProbed = 1000

// floatOps make floats whenever they are fed floats, and something that may
// serve as a feature.
var floatOps = []string{
	"Gemm", "MatMul", "Conv", "BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
	"Add", "Sub", "Mul", "Div", "Sum", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Clip", "Tanh", "Sigmoid",
	"Softplus", "HardSwish", "HardSigmoid", "Gelu", "GlobalAveragePool", "GlobalMaxPool", "AveragePool", "MaxPool",
	"ReduceMean", "ReduceMax", "ReduceSum", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Gather",
	"Slice", "Dropout", "LpNormalization", "Max", "Min", "Identity", "Einsum",
}

func (s source) candidates(ctx context.Context) []Candidate {
	var names []string
	nodes := s.g.Model.GetGraph().GetNode()
	for _, n := range slices.Backward(nodes) {
		if !slices.Contains(floatOps, n.GetOpType()) || len(n.GetOutput()) == 0 || s.is(n.GetOutput()[0]) {
			continue
		}
		if v := s.g.Type(n.GetOutput()[0]); v == nil || floating(v) {
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
		n := s.g.Producer(name)
		list = append(list, Candidate{Tensor: name, Shape: shape, Node: s.g.NodeName(n), Op: n.GetOpType()})
		if len(list) == maxCandidates {
			break
		}
	}
	return list
}

// probeShapes returns the shapes that tensors have in a run on random inputs,
// with −1 for the batch where that varies. It is nil where no inputs could be
// made up.
func (s source) probeShapes(ctx context.Context, tensors []string) (map[string][]int64, error) {
	if len(tensors) == 0 {
		return nil, nil
	}
	infos, heads := s.inputs.declare(s.g)
	// The runtime's binding returns no empty tensors, which the shape of a scalar is.
	const one = "attach/probe/one"
	body := &pb.GraphProto{
		Input: infos,
		Node:  []*pb.NodeProto{node("Constant", nil, one, onnx.Attr("value", onnx.Tensor([]int64{1})))},
	}
	names := make([]string, len(tensors))
	for i, t := range tensors {
		names[i] = fmt.Sprintf("attach/probe/%d", i)
		shape := names[i] + "/shape"
		body.Node = append(body.Node, node("Shape", []string{t}, shape), node("Concat", []string{one, shape}, names[i], onnx.Attr("axis", 0)))
		body.Output = append(body.Output, &pb.ValueInfoProto{Name: new(names[i])})
	}
	session, err := s.rt.NewSession(ctx, ort.Model{Proto: part(s.g, heads, body, tensors...), Dir: s.dir, Unfused: true}, s.inputs.feeds(), names)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	out, rows, _, err := s.inputs.try(ctx, s.g, session)
	if rows == 0 {
		return nil, err
	}
	defer closeAll(out)
	shapes := make(map[string][]int64)
	for i, t := range out {
		dims := slices.Clone(ort.View[int64](t)[1:])
		if len(dims) > 0 && dims[0] == int64(rows) && s.inputs.fixedBatch() == 0 {
			dims[0] = -1
		}
		shapes[tensors[i]] = dims
	}
	return shapes, nil
}
