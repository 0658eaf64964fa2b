package featurize

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// Inputs of a gradient's graph beside the rows.
const (
	temperatureName = "attach/temperature"
	indexName       = "attach/index"
)

// scalarGraph appends the gradient of a scalar with respect to the logits,
// n×c, and returns its name. inputs are what it has to be fed.
type scalarGraph struct {
	b       *onnx.Builder
	classes int // c, or 0 where unknown
	inputs  []string
}

func (s *scalarGraph) upstream(of ood.Scalar) string {
	switch {
	case kinds(of) == 0:
		return s.logSoftmaxTop()
	case !of.Softmax || of.Top:
		return s.b.Node("Expand", []string{s.direction(of), s.b.Node("Shape", []string{logitsName})})
	case of.TopTwo:
		return s.softmaxTopTwo()
	case of.Logit:
		return s.softmaxOf()
	}
	// Probabilities add up to 1, whatever the logits.
	return s.mul(s.softmax(s.temperature()), s.number(0))
}

// In what follows p = softmax(z/T) and k is the top class. 1 − p_k is summed
// from the other classes: the difference of two numbers near 1 would be lost
// where the network is sure.

// logSoftmaxTop is ∇ log p_k = (e_k − p)/T.
func (s *scalarGraph) logSoftmaxTop() string {
	t := s.temperature()
	top := s.top()
	others := s.mul(s.softmax(t), s.not(top))
	return s.b.Node("Div", []string{s.sub(s.mul(top, s.sum(others)), others), t})
}

// softmaxTopTwo is, for the runner-up j,
// ∇(p_k − p_j) = p ∘ ((1 − p_k + p_j)·e_k − e_j − (p_k − p_j)·(1 − e_k))/T.
func (s *scalarGraph) softmaxTopTwo() string {
	t := s.temperature()
	p := s.softmax(t)
	top, second := s.topTwo()
	others := s.not(top)
	pk, pj := s.sum(s.mul(p, top)), s.sum(s.mul(p, second))
	along := s.sub(s.mul(top, s.add(s.sum(s.mul(p, others)), pj)), s.add(second, s.mul(others, s.sub(pk, pj))))
	return s.b.Node("Div", []string{s.mul(p, along), t})
}

// softmaxOf is ∇ p_i = p ∘ ((1 − p_i)·e_i − p_i·(1 − e_i))/T for the class i
// that is fed.
func (s *scalarGraph) softmaxOf() string {
	own := s.direction(ood.Scalar{Logit: true})
	t := s.temperature()
	p := s.softmax(t)
	others := s.not(own)
	along := s.sub(s.mul(own, s.sum(s.mul(p, others))), s.mul(others, s.sum(s.mul(p, own))))
	return s.b.Node("Div", []string{s.mul(p, along), t})
}

// direction is the gradient of a scalar of the logits themselves.
func (s *scalarGraph) direction(of ood.Scalar) string {
	switch {
	case of.Logit:
		return s.oneHot(s.input(indexName, pb.TensorProto_INT64, 1))
	case of.TopTwo:
		return s.sub(s.topTwo())
	case of.Top:
		return s.top()
	}
	return s.number(1)
}

// top marks the largest logit of each row, the first of equals.
func (s *scalarGraph) top() string {
	return s.oneHot(s.b.Node("ArgMax", []string{logitsName}, onnx.Attr("axis", 1), onnx.Attr("keepdims", 1)))
}

// topTwo marks the largest and the second largest logit of each row, the first
// of equals first.
func (s *scalarGraph) topTwo() (top, second string) {
	best := s.b.NodeN(2, "TopK", []string{logitsName, s.b.Const([]int64{2})}, onnx.Attr("axis", 1))[1]
	column := func(i int64) string {
		return s.oneHot(s.b.Node("Gather", []string{best, s.b.Const([]int64{i})}, onnx.Attr("axis", 1)))
	}
	return column(0), column(1)
}

func (s *scalarGraph) add(a, b string) string { return s.b.Node("Add", []string{a, b}) }
func (s *scalarGraph) sub(a, b string) string { return s.b.Node("Sub", []string{a, b}) }
func (s *scalarGraph) mul(a, b string) string { return s.b.Node("Mul", []string{a, b}) }

// not is 1 where a mark is 0, and 0 where it is 1.
func (s *scalarGraph) not(mark string) string { return s.sub(s.number(1), mark) }

// sum adds up each row, n×c to n×1.
func (s *scalarGraph) sum(rows string) string {
	return s.b.Node("ReduceSum", []string{rows, s.b.Const([]int64{1})}, onnx.Attr("keepdims", 1))
}

func (s *scalarGraph) number(v float32) string {
	return s.b.Const(v)
}

func (s *scalarGraph) temperature() string {
	return s.input(temperatureName, pb.TensorProto_FLOAT, 1)
}

func (s *scalarGraph) input(name string, t pb.TensorProto_DataType, dims ...any) string {
	name = s.b.Input(name, t, dims...)
	s.inputs = append(s.inputs, name)
	return name
}

func (s *scalarGraph) softmax(t string) string {
	return s.b.Node("Softmax", []string{s.b.Node("Div", []string{logitsName, t})}, onnx.Attr("axis", 1))
}

// oneHot turns class numbers, 1 or n×1, into rows of 0 and 1, c or n×c.
func (s *scalarGraph) oneHot(index string) string {
	var all string
	if s.classes > 0 {
		numbers := make([]int64, s.classes)
		for i := range numbers {
			numbers[i] = int64(i)
		}
		all = s.b.Const(numbers)
	} else {
		c := s.b.Node("Gather", []string{s.b.Node("Shape", []string{logitsName}), s.b.Const(int64(1))})
		all = s.b.Node("Range", []string{s.b.Const(int64(0)), c, s.b.Const(int64(1))})
	}
	return s.b.Node("Cast", []string{s.b.Node("Equal", []string{all, index})}, onnx.Attr("to", pb.TensorProto_FLOAT))
}
