package fit

import "github.com/attach-uncertainty/attach/internal/autodiff"

// orthonormality makes the penalty λ·mean((CᵀC−I)²) of the last layer's
// weight C, and its gradient (4λ/k²)·C(CᵀC−I). The gradient is written down
// because reverse mode, which does not know that CᵀC is symmetric, would take
// one product of the size of C·CᵀC more.
func orthonormality(s *step, weights []string, lambda string) (string, autodiff.Seed, error) {
	c, k := weights[s.lastWeight()], s.Outputs
	gram := s.node("MatMul", s.swap(c), c)
	off := s.node("Sub", gram, s.eye(k))
	term := s.node("Mul", s.mean(s.node("Mul", off, off)), lambda)
	scale := s.node("Mul", lambda, s.b.Const(float32(4/float64(k*k))))
	return term, autodiff.Seed{Output: c, Upstream: s.node("MatMul", c, s.node("Mul", off, scale))}, nil
}
