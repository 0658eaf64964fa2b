package double

// near and far are coefficients that testdata/erf.py prints, lowest first.
func near() []float64 {
	return []float64{
		0.9654687386698673,
		-0.14053608902272122,
		0.019852496688983864,
		-0.0022854855610623184,
		0.00021751715603847516,
		-1.7537169899206237e-05,
		1.2233827558562044e-06,
		-7.511464577090118e-08,
		4.11576058992764e-09,
		-2.0456997595543134e-10,
		9.207614215658363e-12,
	}
}

func far() []float64 {
	return []float64{
		1.2681873667714274,
		-0.048810440843496235,
		-0.022103617095108892,
		0.01052682228601886,
		-0.0017071240549201368,
		-4.442033983943916e-05,
		4.793897842145043e-05,
		4.431557587504837e-07,
		-1.5615726135607478e-06,
		-8.563289029525716e-08,
		5.325367485948624e-08,
		8.363574207742706e-09,
		-1.3416731874224567e-09,
		-5.409738838159953e-10,
		-1.998332633982315e-12,
		2.163684656476596e-11,
	}
}

// erf is the error function to 1e-15, relative: x·near(x²) below 1, and
// 1 − exp(−x²)·far((x − 2)/(x + 2))/(1 + 2x) above. It is 1 from 6 on.
func (s *site) erf(x string) string {
	a := s.node("Min", s.node("Abs", x), s.number(6))
	low := s.node("Min", a, s.number(1))
	below := s.mul(x, s.polynomial(s.plus(-1, s.times(2, s.mul(low, low))), near()))
	high := s.node("Max", a, s.number(1))
	t := s.plus(-0.2, s.times(2.4, s.div(s.plus(-2, high), s.plus(2, high))))
	rest := s.div(s.mul(s.node("Exp", s.node("Neg", s.mul(high, high))), s.polynomial(t, far())), s.plus(1, s.times(2, high)))
	above := s.sub(s.number(1), rest)
	above = s.where(s.node("Less", x, s.number(0)), s.node("Neg", above), above)
	return s.where(s.node("Less", a, s.number(1)), below, above)
}

func (s *site) polynomial(t string, c []float64) string {
	last := len(c) - 1
	p := s.plus(c[last-1], s.times(c[last], t))
	for i := last - 2; i >= 0; i-- {
		p = s.plus(c[i], s.mul(p, t))
	}
	return p
}
