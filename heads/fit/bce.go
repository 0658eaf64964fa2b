package fit

// bce is binary cross-entropy with logits: softplus(z) − y·z.
func bce(s *step, z string) string {
	loss := s.node("Softplus", z)
	if s.y == "" {
		return loss
	}
	return s.node("Sub", loss, s.node("Mul", s.y, z))
}
