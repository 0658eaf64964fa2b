package fit

// mse is the squared error.
func mse(s *step, z string) string {
	r := s.residual(z)
	return s.node("Mul", r, r)
}
