package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

const gradientName = "attach/gradient"

// gradientKey identifies the graph of a gradient.
type gradientKey struct {
	of     ood.Scalar // the scalar; its temperature and index are 0
	tensor string
}

// gradientGraph is a model whose graph also computes a gradient.
type gradientGraph struct {
	key         gradientKey
	tensor      string       // tensor to differentiate with respect to
	lengthInput int          // index of the input that has the same second axis as the tensor, or −1
	session     *ort.Session // returns φ, the logits and the gradient
}

// newGradientGraph builds the graph that computes the gradient for key.
func (m *Model) newGradientGraph(ctx context.Context, g *onnx.Graph, key gradientKey) (*gradientGraph, error) {
	tensor := key.tensor
	if tensor == "" {
		in, err := m.inputs.realInput()
		if err != nil {
			return nil, err
		}
		tensor = in.name
	}
	d := &gradientGraph{key: key, tensor: tensor, lengthInput: m.findLengthInput(ctx, g, tensor)}
	var err error
	d.session, err = m.newGradientSession(ctx, g, d)
	_, refused := errors.AsType[*autodiff.TensorError](err)
	_, unsupported := errors.AsType[*autodiff.UnsupportedError](err)
	switch {
	case unsupported:
		return nil, fmt.Errorf("%w: %w; use the method's variant in feature space, "+
			"or differentiate with respect to a tensor after that node", ood.ErrNotDifferentiable, err)
	case errors.Is(err, autodiff.ErrNoPath):
		return nil, fmt.Errorf("%w: the logits do not depend on tensor %q through differentiable operators", ood.ErrNotDifferentiable, tensor)
	case refused:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot make the gradient with respect to %q: %w", tensor, err)
	}
	return d, nil
}

// findLengthInput returns the index of the input that has the same second axis as the
// tensor, or −1. It compares the shapes in a run on random rows.
func (m *Model) findLengthInput(ctx context.Context, g *onnx.Graph, tensor string) int {
	probed := []string{tensor}
	for i, in := range m.inputs {
		if in.name == tensor {
			return i
		}
		if len(in.dims) > 1 && in.layout() == "" {
			probed = append(probed, in.name)
		}
	}
	if len(probed) == 1 {
		return -1
	}
	s := modelBuilder{constants: newConstants(g, filepath.Dir(m.path), m.runtime, m.inputs...), inputs: m.inputs}
	shapes, _ := s.probeShapes(ctx, probed) // if the model cannot run, shapes is nil
	shape := shapes[tensor]
	return slices.IndexFunc(m.inputs, func(in input) bool {
		inputShape := shapes[in.name]
		return len(shape) > 2 && len(inputShape) > 1 && inputShape[1] == shape[1]
	})
}

// isReal reports whether the input takes real numbers.
func (in input) isReal() bool { return onnx.IsFloat(pb.TensorProto_DataType(in.elemType)) }

// realInput returns the input to differentiate with respect to: the only input of the
// model, or else the only required one that holds real numbers and is not a mask.
func (list inputs) realInput() (input, error) {
	if len(list) == 1 {
		return list[0], nil
	}
	var names []string
	var found input
	for _, in := range list {
		if in.isReal() && !in.isMask() && !in.isOptional() {
			found = in
			names = append(names, in.name)
		}
	}
	switch len(names) {
	case 1:
		return found, nil
	case 0:
		return found, fmt.Errorf("%w: none of its %d inputs holds real numbers; use the method's variant in feature space, "+
			"or differentiate with respect to a tensor made of them", ood.ErrNotDifferentiable, len(list))
	}
	return found, fmt.Errorf("%w: several of its inputs hold real numbers (%s); use the method's variant in feature space, "+
		"or differentiate with respect to one of them", ood.ErrNotDifferentiable, display.Quoted(names, 10))
}

// newGradientSession appends the nodes that compute the gradient to the model's graph, and opens a
// session for it.
func (m *Model) newGradientSession(ctx context.Context, g *onnx.Graph, d *gradientGraph) (*ort.Session, error) {
	views, dir := m.views[:2], filepath.Dir(m.path)
	names := viewNames(views)
	b := onnx.Extend(exposeViews(g, m.inputs, views, names))
	wrt, err := m.gradientTensors(b.Index(), d.tensor)
	if err != nil {
		return nil, err
	}
	s := newScalarGraph(b, m.info.OutputsWidth)
	gradients, err := autodiff.Gradient(b, dir, []autodiff.Seed{{Output: logitsName, Upstream: s.upstream(d.key.of)}}, wrt)
	if err != nil {
		return nil, err
	}
	out := declareSum(b, gradients)
	model, err := b.Model()
	if err != nil {
		return nil, err
	}
	return m.runtime.NewSession(ctx, ort.Model{Proto: model, Dir: dir}, append(m.inputs.feedNames(), s.inputs...), append(names, out))
}

// gradientTensors lists tensors whose gradients add up to the gradient with respect to the
// given tensor. For an integer input, these are the outputs of the Cast nodes that read the
// input. Otherwise the list contains only the tensor itself.
func (m *Model) gradientTensors(g *onnx.Graph, tensor string) ([]string, error) {
	_, constant := g.Const(tensor)
	deps := ancestors(g, tensor)
	switch {
	case slices.ContainsFunc(m.inputs.feedNames(), func(feed string) bool { return deps[feed] }):
	case g.Producer(tensor) != nil || constant:
		return nil, &autodiff.TensorError{Tensor: tensor, Reason: "it does not depend on the model's input and is the same for every row"}
	default:
		return nil, &autodiff.TensorError{Tensor: tensor, Reason: "the logits are not made from a tensor of that name"}
	}
	in := m.inputs.byName(tensor)
	if in == nil || in.isReal() {
		return []string{tensor}, nil
	}
	var casts []string
	for _, n := range g.Consumers(tensor) {
		switch n.GetOpType() {
		case "Cast":
			casts = append(casts, n.GetOutput()[0])
		case "Shape", "Size":
		default:
			return nil, fmt.Errorf("%w: the input holds %s, and %s reads it directly; name an inner tensor to differentiate with respect to",
				ood.ErrNotDifferentiable, onnx.DTypeName(in.elemType), describe(g, n))
		}
	}
	if len(casts) == 0 {
		return nil, fmt.Errorf("%w: the input holds %s", ood.ErrNotDifferentiable, onnx.DTypeName(in.elemType))
	}
	return casts, nil
}

// declareSum adds up the gradients and makes the sum a float32 output.
func declareSum(b *onnx.Builder, gradients []string) string {
	sum := ""
	for _, g := range gradients {
		single := b.Node("Cast", []string{g}, onnx.Attr("to", pb.TensorProto_FLOAT))
		if sum == "" {
			sum = single
		} else {
			sum = b.Node("Add", []string{sum, single})
		}
	}
	out := b.OutputAs(gradientName, sum, pb.TensorProto_FLOAT)
	outputs := b.Graph().Output
	outputs[len(outputs)-1].GetType().GetTensorType().Shape = nil
	return out
}

// scalarInputs returns the additional inputs of the graph, in the order in which
// scalarGraph declared them: the index of the logit and the temperature.
func (d *gradientGraph) scalarInputs(o GradientOptions) (list []*ort.Tensor, err error) {
	add := func(t *ort.Tensor, e error) {
		if e == nil {
			list = append(list, t)
		}
		err = errors.Join(err, e)
	}
	if d.key.of.Logit {
		add(ort.NewTensor([]int64{1}, []int64{int64(o.Of.Index)}))
	}
	if countKinds(d.key.of) == 0 || d.key.of.Softmax {
		add(ort.NewTensor([]int64{1}, []float32{float32(cmp.Or(o.Of.Temperature, 1))}))
	}
	return list, err
}
