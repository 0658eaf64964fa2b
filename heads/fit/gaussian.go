package fit

import "github.com/attach-uncertainty/attach/internal/onnx"

// gaussianNLL is ½(ln s + (y−m)²/s) with the variance s = softplus(v) + 1e-3,
// for outputs m and v (Nix and Weigend 1994; Lakshminarayanan et al. 2017).
func gaussianNLL(s *step, z string) string {
	mean, v := s.halves(z)
	variance := s.node("Add", s.node("Softplus", v), s.b.Const(float32(1e-3)))
	r := s.residual(mean)
	sum := s.node("Add", s.node("Log", variance), s.node("Div", s.node("Mul", r, r), variance))
	return s.node("Mul", sum, s.b.Const(float32(0.5)))
}

// halves splits two outputs.
func (s *step) halves(z string) (first, second string) {
	parts := s.b.NodeN(2, "Split", []string{z, s.b.Const([]int64{1, 1})}, onnx.Attr("axis", -1))
	return parts[0], parts[1]
}
