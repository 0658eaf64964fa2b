package fit

import "github.com/attach-uncertainty/attach/internal/autodiff"

// orthonormality makes the penalty λ·mean((CᵀC−I)²) of the last layer's
// weight C, one number per model, and its gradient (4λ/k²)·C(CᵀC−I). The
// gradient is written down because reverse mode, which does not know that CᵀC
// is symmetric, would take one product of the size of C·CᵀC more.
func (s *step) orthonormality(c string) (penalty string, gradient autodiff.Seed) {
	k := s.Outputs
	eye := make([]float32, k*k)
	for i := range k {
		eye[i*k+i] = 1
	}
	gram := s.node("MatMul", s.swap(c), c)
	off := s.node("Sub", gram, s.b.Const(eye, int64(k), int64(k)))
	penalty = s.node("Mul", s.mean(s.node("Mul", off, off)), s.lambda)
	scale := s.node("Mul", s.lambda, s.b.Const(float32(4/float64(k*k))))
	return penalty, autodiff.Seed{Output: c, Upstream: s.node("MatMul", c, s.node("Mul", off, scale))}
}
