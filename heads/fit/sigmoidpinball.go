package fit

// sigmoidPinball is the quantile loss of a score in (0,1): σ(z) against y.
func sigmoidPinball(s *step, z string) string { return pinball(s, s.node("Sigmoid", z)) }
