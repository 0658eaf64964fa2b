package table3

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRecipeGradient compares the gradient with central differences, and the fast loss with
// a loss computed row by row.
func TestRecipeGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s sample
	levels := make([]float64, 40)
	for i := range levels {
		s.x, s.y = append(s.x, rng.NormFloat64()), append(s.y, rng.NormFloat64())
		levels[i] = .3
	}
	s = s.sorted()
	n := make(shallowNet, 1+4*recipeUnits)
	for i := range n {
		n[i] = rng.NormFloat64() / 4
	}
	rowLoss := func() float64 {
		var sum float64
		for i, x := range s.x {
			out := n[0]
			for k := range recipeUnits {
				a, b, c, v := n.hiddenUnit(k)
				out += v * max(a*x+b*levels[i]+c, 0)
			}
			sum += pinball(levels[i], s.y[i]-out)
		}
		return sum / float64(len(s.x))
	}
	if got, want := n.loss(s, .3), rowLoss(); math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %v, want %v", got, want)
	}
	gradient := make([]float64, len(n))
	n.gradient(s, levels, make([]float64, len(levels)), gradient)
	for i, g := range gradient {
		saved := n[i]
		const step = 1e-7
		n[i] = saved + step
		above := rowLoss()
		n[i] = saved - step
		below := rowLoss()
		n[i] = saved
		if want := (above - below) / (2 * step); math.Abs(g-want) > 1e-6 {
			t.Errorf("parameter %d: %v, want %v", i, g, want)
		}
	}
}
