package featurize

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	// temperatureName and indexName are additional inputs of a graph that computes
	// gradients.
	temperatureName = "attach/temperature"
	indexName       = "attach/index"
)

// scalarGraph appends nodes that compute the gradient of a scalar with respect to the
// logits z (n×c). inputs lists the inputs that these nodes add to the graph.
type scalarGraph struct {
	builder *onnx.Builder
	logits  graph.Tensor
	classes int // number of classes c; 0 if unknown
	inputs  []string
}

func newScalarGraph(b *onnx.Builder, classes int) *scalarGraph {
	return &scalarGraph{builder: b, logits: graph.Wrap(b, logitsName, pb.TensorProto_FLOAT, classes), classes: classes}
}

// upstream appends the gradient of the scalar and returns the name of its tensor.
func (s *scalarGraph) upstream(of ood.Scalar) string {
	switch {
	case countKinds(of) == 0:
		return s.logSoftmaxTopGradient().Name()
	case !of.Softmax || of.Top:
		return s.builder.Node("Expand", []string{s.linearGradient(of).Name(), s.shape()})
	case of.TopTwo:
		return s.softmaxTopTwoGradient().Name()
	case of.Logit:
		return s.softmaxClassGradient().Name()
	}
	// The sum of all probabilities is always 1, so its gradient is 0.
	return s.logits.Div(s.temperature()).Softmax().Mul(0.).Name()
}

// The functions below use p = softmax(z/T), where T is the temperature. k is the class with
// the largest logit, and e_k is the unit vector of class k. The functions compute 1 − p_k
// as the sum over the other classes, because subtracting p_k from 1 would lose digits if
// the model is confident.

// logSoftmaxTopGradient returns ∇ log p_k = (e_k − p)/T.
func (s *scalarGraph) logSoftmaxTopGradient() graph.Tensor {
	t, top := s.temperature(), s.markTop()
	others := s.logits.Div(t).Softmax().Mul(s.complement(top))
	return top.Mul(others.Sum()).Sub(others).Div(t)
}

// softmaxTopTwoGradient returns the gradient of the difference of the two largest probabilities,
// where j is the class with the second-largest logit:
// ∇(p_k − p_j) = p ∘ ((1 − p_k + p_j)·e_k − e_j − (p_k − p_j)·(1 − e_k))/T.
func (s *scalarGraph) softmaxTopTwoGradient() graph.Tensor {
	t := s.temperature()
	p := s.logits.Div(t).Softmax()
	top, second := s.markTopTwo()
	others := s.complement(top)
	pk, pj := p.Mul(top).Sum(), p.Mul(second).Sum()
	factor := top.Mul(p.Mul(others).Sum().Add(pj)).Sub(second.Add(others.Mul(pk.Sub(pj))))
	return p.Mul(factor).Div(t)
}

// softmaxClassGradient returns ∇ p_i = p ∘ ((1 − p_i)·e_i − p_i·(1 − e_i))/T, where i is the class in
// the graph's index input.
func (s *scalarGraph) softmaxClassGradient() graph.Tensor {
	mark := s.linearGradient(ood.Scalar{Logit: true})
	t := s.temperature()
	p := s.logits.Div(t).Softmax()
	others := s.complement(mark)
	factor := mark.Mul(p.Mul(others).Sum()).Sub(others.Mul(p.Mul(mark).Sum()))
	return p.Mul(factor).Div(t)
}

// linearGradient returns the gradient of a scalar that is linear in the logits, such as one
// logit or a sum.
func (s *scalarGraph) linearGradient(of ood.Scalar) graph.Tensor {
	switch {
	case of.Logit:
		return s.oneHot(s.input(indexName, pb.TensorProto_INT64))
	case of.TopTwo:
		top, second := s.markTopTwo()
		return top.Sub(second)
	case of.Top:
		return s.markTop()
	}
	return s.logits.Constant([]float32{1})
}

// markTop marks the largest logit of each row with 1. If several logits are equal, it marks the
// first.
func (s *scalarGraph) markTop() graph.Tensor { return s.oneHot(s.logits.ArgMax()) }

// markTopTwo marks the largest and the second-largest logit of each row. Equal logits are
// ordered by their class number.
func (s *scalarGraph) markTopTwo() (top, second graph.Tensor) {
	_, best := s.logits.Top(2)
	return s.oneHot(best.Columns(0, 1)), s.oneHot(best.Columns(1, 2))
}

// complement returns 1 − mark.
func (s *scalarGraph) complement(mark graph.Tensor) graph.Tensor {
	return s.logits.Constant([]float32{1}).Sub(mark)
}

// temperature declares the temperature as an input of the graph.
func (s *scalarGraph) temperature() graph.Tensor {
	return s.input(temperatureName, pb.TensorProto_FLOAT)
}

// input declares an additional input that holds one number.
func (s *scalarGraph) input(name string, t pb.TensorProto_DataType) graph.Tensor {
	name = s.builder.Input(name, t, 1)
	s.inputs = append(s.inputs, name)
	return graph.Wrap(s.builder, name, t, 1)
}

// shape returns the name of a tensor that holds the shape of the logits.
func (s *scalarGraph) shape() string { return s.builder.Node("Shape", []string{logitsName}) }

// oneHot returns 1 in the columns of the given classes and 0 elsewhere. index holds one
// class for all rows (length 1, result c) or one class for each row (n×1, result n×c).
func (s *scalarGraph) oneHot(index graph.Tensor) graph.Tensor {
	var classNumbers string
	if s.classes > 0 {
		numbers := make([]int64, s.classes)
		for i := range numbers {
			numbers[i] = int64(i)
		}
		classNumbers = s.builder.Const(numbers)
	} else {
		c := s.builder.Node("Gather", []string{s.shape(), s.builder.Const(int64(1))})
		classNumbers = s.builder.Node("Range", []string{s.builder.Const(int64(0)), c, s.builder.Const(int64(1))})
	}
	equal := s.builder.Node("Equal", []string{classNumbers, index.Name()})
	return graph.Wrap(s.builder, equal, pb.TensorProto_BOOL, s.classes).Single()
}
