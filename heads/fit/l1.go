package fit

// l1 is the absolute error.
func l1(s *step, z string) string { return s.node("Abs", s.residual(z)) }
