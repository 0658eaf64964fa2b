package fit

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

const (
	opset = 17
	float = pb.TensorProto_FLOAT
)

// step builds the graph of one training step on a batch with a fixed number of rows.
//
// If there are several models, tensors have a leading model axis: M×rows×columns, where M
// is the number of models. If all models share a batch, the axis of the batch has size 1.
// If there is only one model, tensors are matrices.
type step struct {
	*plan
	b    *onnx.Builder
	rows int
	// penaltyRows is the n in the loss "quality-driven": the batch size that weights the
	// penalty for too little coverage.
	penaltyRows int

	y, tau    string // names of graph inputs, or ""
	masks     []string
	constants []string // tensors that differentiation treats as constants
	// These are the names of the graph inputs of penalties, or "".
	noise, interpolated, pick string
	inputs                    []string // names of all graph inputs, in the order of buildStep
}

// stepGraph is the graph of a step as an ONNX model, with the names of its inputs and
// outputs.
type stepGraph struct {
	model           *pb.ModelProto
	inputs, outputs []string
}

// buildStep returns the graph of a training step. The graph has the following inputs in
// this order. If the plan does not need an input, the graph does not have it.
//
//	x, y, tau, one mask per hidden layer, noise, between, pick,
//	the parameters (views of w), w, m, v (flat),
//	rate, epsilon, learning rates, weight decays, and the weights of penalties
//
// The outputs are w, m and v after the step, and the loss of each model before the step.
func buildStep(p *plan, rows int) (stepGraph, error) {
	s := newStep(p, rows, "step")
	x := s.dataInputs()
	if p.usesDropout() {
		for i, h := range p.Hidden {
			s.masks = append(s.masks, s.input(fmt.Sprintf("mask%d", i), p.maskAxis(), rows, h))
		}
	}
	if p.drawsNoise() {
		s.noise = s.input("noise", p.batchAxis(), p.batch, p.width)
		s.interpolated = s.input("between", p.batchAxis(), rows, p.width)
		s.pick = s.input("pick", p.batchAxis(), rows, p.Outputs)
	}
	weights := s.weightInputs()
	optimiser := s.adamInputs()
	var lambdas []string
	for _, q := range p.penalties() {
		lambdas = append(lambdas, s.input(q.name, p.models, 1, 1))
	}

	loss := s.mean(losses[p.Loss](s, s.network(x, weights, s.masks)))
	seeds := []autodiff.Seed{{Output: loss}}
	for i, q := range p.penalties() {
		term, seed, err := q.term(s, weights, lambdas[i])
		if err != nil {
			return stepGraph{}, err
		}
		loss = s.node("Add", loss, term)
		seeds = append(seeds, seed)
	}
	gradients, err := autodiff.Gradient(s.b, "", seeds, weights, s.constants...)
	if err != nil {
		return stepGraph{}, err
	}
	outputs := s.adam(optimiser, s.flatten(gradients))
	s.b.Output(loss, float, toAny(s.dims(1, 1))...)
	m, err := s.b.Model()
	if err != nil {
		return stepGraph{}, err
	}
	return stepGraph{model: m, inputs: s.inputs, outputs: append(outputs, loss)}, nil
}

func newStep(p *plan, rows int, name string) *step {
	return &step{plan: p, rows: rows, penaltyRows: rows, b: onnx.NewBuilder(name, opset)}
}

// dataInputs declares the graph inputs x, y and tau, and returns the name of x.
func (s *step) dataInputs() string {
	x := s.input("x", s.batchAxis(), s.rows, s.width)
	if s.targets > 0 {
		s.y = s.input("y", s.targetAxis(), s.rows, s.targets)
	}
	if s.Conditional {
		s.tau = s.input("tau", s.batchAxis(), s.rows, 1)
	}
	return x
}

// weightInputs declares a graph input for each parameter.
func (s *step) weightInputs() []string {
	weights := make([]string, len(s.params))
	for i, q := range s.params {
		name := fmt.Sprintf("b%d", i)
		if q.weight {
			name = fmt.Sprintf("W%d", i)
		}
		weights[i] = s.input(name, s.models, q.rows(), q.out)
	}
	return weights
}

// network adds the graph nodes of a network: affine layers with ReLU between them, and
// dropout if there are masks.
func (s *step) network(x string, weights, masks []string) string {
	layer := 0
	for i, q := range s.params {
		switch {
		case !q.weight:
			continue // this bias was added together with its weight
		case q.bias || s.NoBias:
			x = s.node("MatMul", x, weights[i])
		case s.models == 1:
			x = s.node("Gemm", x, weights[i], weights[i+1])
		default:
			x = s.node("Add", s.node("MatMul", x, weights[i]), weights[i+1])
		}
		if layer == len(s.Hidden) {
			break
		}
		x = s.node("Relu", x)
		if masks != nil {
			x = s.node("Mul", x, masks[layer])
		}
		layer++
	}
	return x
}

// flatten concatenates the gradients in the order of the flat vector.
func (s *step) flatten(gradients []string) string {
	flat := make([]string, len(gradients))
	for i, g := range gradients {
		flat[i] = s.node("Reshape", g, s.b.Const([]int64{-1}))
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return s.b.Node("Concat", flat, onnx.Attr("axis", 0))
}

// mean returns the mean over all axes except the model axis. The other axes keep size 1.
func (s *step) mean(x string) string {
	axes := []int64{0, 1}
	if s.models > 1 {
		axes = []int64{1, 2}
	}
	return s.b.Node("ReduceMean", []string{x}, onnx.Attr("axes", axes), onnx.Attr("keepdims", 1))
}

// transpose returns the transposed matrix of each model.
func (s *step) transpose(x string) string {
	perm := []int64{1, 0}
	if s.models > 1 {
		perm = []int64{0, 2, 1}
	}
	return s.b.Node("Transpose", []string{x}, onnx.Attr("perm", perm))
}

func (s *step) node(op string, inputs ...string) string { return s.b.Node(op, inputs) }

// input declares a float input with the shape axis×dims. If there is only one model, the
// shape is dims.
func (s *step) input(name string, axis int, dims ...int) string {
	return s.flatInput(name, toAny(s.shape(axis, dims...))...)
}

func (s *step) flatInput(name string, shape ...any) string {
	name = s.b.Input(name, float, shape...)
	s.inputs = append(s.inputs, name)
	return name
}

// dims returns the shape of a tensor that has the model axis.
func (s *step) dims(dims ...int) []int64 { return s.shape(s.models, dims...) }

func toAny(shape []int64) []any {
	var out []any
	for _, d := range shape {
		out = append(out, d)
	}
	return out
}

// shape returns axis×dims or, if there is only one model, dims.
func (p *plan) shape(axis int, dims ...int) []int64 {
	var out []int64
	if p.models > 1 {
		out = append(out, int64(axis))
	}
	for _, d := range dims {
		out = append(out, int64(d))
	}
	return out
}

// batchAxis returns the size of the model axis of batches. It is 1 if all models share
// their batches.
func (p *plan) batchAxis() int {
	if p.sharedBatches {
		return 1
	}
	return p.models
}

// maskAxis returns the size of the model axis of dropout masks.
func (p *plan) maskAxis() int {
	if _, same := p.uniform(dropout); same {
		return p.batchAxis()
	}
	return p.models
}

// usesDropout reports whether any model uses dropout.
func (p *plan) usesDropout() bool {
	return len(p.Hidden) > 0 && p.usedByAny(dropout)
}
