package fit

import (
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
)

// penalty is a term that is added to the loss, with a weight for each model.
type penalty struct {
	name  string // name of the graph input with the weights
	value func(train.ModelConfig) float64
	// term adds graph nodes for the penalty. It returns the penalty times its weight, one
	// number per model, and the seed from which automatic differentiation starts.
	term func(s *step, weights []string, lambda string) (string, autodiff.Seed, error)
}

var penalties = []penalty{
	{"lambda", orthonormal, orthonormality},
	{"gradient", gradientPenalty, lipschitz},
	{"diversity", diversity, secondMoment},
}

// penalties returns the penalties that at least one model uses.
func (p *plan) penalties() []penalty {
	var list []penalty
	for _, q := range penalties {
		if p.usedByAny(q.value) {
			list = append(list, q)
		}
	}
	return list
}

// orthonormality adds the penalty λ·mean((CᵀC−I)²) of the weight matrix C of the last
// layer, which has k columns. It also adds the gradient (4λ/k²)·C(CᵀC−I). Automatic
// differentiation would need one more product of the size of C·CᵀC, because it does not use
// the symmetry of CᵀC.
func orthonormality(s *step, weights []string, lambda string) (string, autodiff.Seed, error) {
	c, k := weights[s.lastWeight()], s.Outputs
	gram := s.node("MatMul", s.transpose(c), c)
	difference := s.node("Sub", gram, s.identity(k))
	term := s.node("Mul", s.mean(s.node("Mul", difference, difference)), lambda)
	scale := s.node("Mul", lambda, s.b.Const(float32(4/float64(k*k))))
	return term, autodiff.Seed{Output: c, Upstream: s.node("MatMul", c, s.node("Mul", difference, scale))}, nil
}

// normEpsilon keeps the derivative of a norm finite at 0.
const normEpsilon = 1e-12

// lipschitz adds the penalty λ·mean((‖∇f‖−1)²) at points between rows of the batch and
// noise. The gradient ∇f of one output with respect to the inputs is computed within the
// graph, so training needs second derivatives.
//
// Reference: Gulrajani, Ahmed, Arjovsky, Dumoulin & Courville (2017), Improved
// Training of Wasserstein GANs, equation 3.
func lipschitz(s *step, weights []string, lambda string) (string, autodiff.Seed, error) {
	x := s.repeatPerModel(s.interpolated, s.rows, s.width)
	f := s.network(x, weights, nil)
	pick := s.repeatPerModel(s.pick, s.rows, s.Outputs)
	gradients, err := autodiff.Gradient(s.b, "", []autodiff.Seed{{Output: f, Upstream: pick}}, []string{x}, s.constants...)
	if err != nil {
		return "", autodiff.Seed{}, err
	}
	g := gradients[0]
	if s.folded {
		inputs := make([]float32, s.width)
		for i := range s.in {
			inputs[i] = 1
		}
		g = s.node("Mul", g, s.b.Const(inputs, int64(s.width)))
	}
	squares := s.b.Node("ReduceSum", []string{s.node("Mul", g, g), s.b.Const([]int64{-1})}, onnx.Attr("keepdims", 1))
	difference := s.node("Sub", s.node("Sqrt", s.node("Add", squares, s.b.Const(float32(normEpsilon)))), s.b.Const(float32(1)))
	term := s.node("Mul", s.mean(s.node("Mul", difference, difference)), lambda)
	return term, autodiff.Seed{Output: term}, nil
}

// repeatPerModel repeats data that models share, so that the data has a separate gradient
// for each model.
func (s *step) repeatPerModel(x string, rows, cols int) string {
	if s.models == 1 || s.batchAxis() == s.models {
		return x
	}
	return s.node("Expand", x, s.b.Const(s.dims(rows, cols)))
}

// secondMoment adds the penalty λ·mean((S−I)²), where S = mean f(u)f(u)ᵀ over rows u of
// noise. For linear outputs f = Cᵀu without bias, the expectation of S is CᵀC.
func secondMoment(s *step, weights []string, lambda string) (string, autodiff.Seed, error) {
	f := s.network(s.noise, weights, nil)
	scale := s.b.Const(float32(1 / float64(s.batch)))
	difference := s.node("Sub", s.node("Mul", s.node("MatMul", s.transpose(f), f), scale), s.identity(s.Outputs))
	term := s.node("Mul", s.mean(s.node("Mul", difference, difference)), lambda)
	return term, autodiff.Seed{Output: term}, nil
}

// identity returns the k×k identity matrix.
func (s *step) identity(k int) string {
	eye := make([]float32, k*k)
	for i := range k {
		eye[i*k+i] = 1
	}
	return s.b.Const(eye, int64(k), int64(k))
}
