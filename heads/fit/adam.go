package fit

import (
	"math"
)

// These are the constants of Adam (Kingma and Ba 2015).
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// The moments m and v are stored divided by 1−β₁ and 1−β₂, which saves one product for
// each. For the gradient g and the weights w, a step computes
//
//	m ← β₁m + g
//	v ← β₂v + g²
//	w ← w − rate·m / (√v + ε′)
//
// The inputs rate and ε′ include the bias correction of step t. The input rate also
// includes the learning rate if all models have the same one. Otherwise, the input rates
// holds the learning rates, and the update is multiplied by them.

// adamInputs holds the names of the graph inputs that the optimiser reads.
type adamInputs struct {
	w, m, v, rate, epsilon string
	rates, decay           string // empty if the step does not need the input
}

// adamInputs declares the graph inputs of the optimiser.
func (s *step) adamInputs() adamInputs {
	var in adamInputs
	in.w = s.flatInput("w", s.flat)
	in.m = s.flatInput("m", s.flat)
	in.v = s.flatInput("v", s.flat)
	in.rate = s.flatInput("rate", 1)
	in.epsilon = s.flatInput("epsilon", 1)
	rates, decay := s.hyperInputs()
	if rates != nil {
		in.rates = s.flatInput("lr", len(rates))
	}
	if decay != nil {
		in.decay = s.flatInput("l2", len(decay))
	}
	return in
}

// hyperInputs returns the learning rates and weight decays that a step has as graph inputs.
// Each is nil if the step does not need it. Otherwise it has one value, or one per entry of
// the flat vector.
func (p *plan) hyperInputs() (rates, decay []float32) {
	if _, same := p.uniform(learningRate); !same {
		rates = p.perEntry(learningRate)
	}
	if common, same := p.uniform(weightDecay); !same {
		decay = p.perEntry(weightDecay)
	} else if common != 0 {
		decay = []float32{float32(common)}
	}
	return rates, decay
}

// adam adds graph nodes for the update of the weights by the gradient g. It returns the
// names of the outputs: w, m and v after the update.
func (s *step) adam(in adamInputs, g string) []string {
	w := in.w
	if in.decay != "" {
		g = s.node("Add", g, s.node("Mul", in.decay, w))
	}
	m := s.node("Add", s.node("Mul", in.m, s.b.Const(float32(beta1))), g)
	v := s.node("Add", s.node("Mul", in.v, s.b.Const(float32(beta2))), s.node("Mul", g, g))
	update := s.node("Div", m, s.node("Add", s.node("Sqrt", v), in.epsilon))
	if in.rates != "" {
		update = s.node("Mul", update, in.rates)
	}
	w = s.node("Sub", w, s.node("Mul", update, in.rate))
	for _, out := range []string{w, m, v} {
		s.b.Output(out, float, s.flat)
	}
	return []string{w, m, v}
}

// rates returns the graph inputs rate and epsilon of step t, counted from 1.
func (p *plan) rates(t int) (rate, eps float32) {
	// For moments in their stored form, the bias-corrected moments are m̂ = a·m and √v̂ =
	// b·√v.
	a := (1 - beta1) / (1 - math.Pow(beta1, float64(t)))
	b := math.Sqrt((1 - beta2) / (1 - math.Pow(beta2, float64(t))))
	lr, same := p.uniform(learningRate)
	if !same {
		lr = 1
	}
	return float32(lr * a / b), float32(epsilon / b)
}
