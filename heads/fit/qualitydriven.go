package fit

// qualityDriven is the loss of train.CoverageLoss: the mean width of the
// intervals that capture, and a penalty on coverage that falls short, which is
// counted softly.
//
// Reference: Pearce, Brintrup, Zaki & Neely (2018), High-Quality Prediction
// Intervals for Deep Learning, equation 15 and algorithm 1.
func qualityDriven(s *step, z string) string {
	lower, upper := s.halves(z)
	below, above := s.node("Sub", upper, s.y), s.node("Sub", s.y, lower)
	captured := s.node("Mul", s.over(below), s.over(above))
	width := s.mean(s.node("Mul", s.node("Sub", upper, lower), captured))
	share := s.node("Max", s.mean(captured), s.b.Const(float32(1/float64(s.rows))))
	width = s.node("Div", width, share)

	softening := s.b.Const(float32(orDefault(s.Coverage.Softening, 160)))
	soft := func(r string) string { return s.node("Sigmoid", s.node("Mul", r, softening)) }
	coverage := s.mean(s.node("Mul", soft(below), soft(above)))
	wanted := s.Levels[1] - s.Levels[0]
	short := s.node("Relu", s.node("Sub", s.b.Const(float32(wanted)), coverage))
	weight := orDefault(s.Coverage.Lambda, 15) * float64(s.penaltyRows) / (wanted * (1 - wanted))
	penalty := s.node("Mul", s.node("Mul", short, short), s.b.Const(float32(weight)))
	return s.node("Add", width, penalty)
}

func orDefault(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}
