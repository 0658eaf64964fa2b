package table3

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRecipeGradient compares the gradient with differences, and the loss of a
// level with that of rows one by one.
func TestRecipeGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s sample
	levels := make([]float64, 40)
	for i := range levels {
		s.x, s.y = append(s.x, rng.NormFloat64()), append(s.y, rng.NormFloat64())
		levels[i] = .3
	}
	s = s.sorted()
	n := make(shallow, 1+4*recipeUnits)
	for i := range n {
		n[i] = rng.NormFloat64() / 4
	}
	byRow := func() float64 {
		var sum float64
		for i, x := range s.x {
			out := n[0]
			for k := range recipeUnits {
				a, b, c, v := n.unit(k)
				out += v * max(a*x+b*levels[i]+c, 0)
			}
			sum += pinball(levels[i], s.y[i]-out)
		}
		return sum / float64(len(s.x))
	}
	if got, want := n.loss(s, .3), byRow(); math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %v, want %v", got, want)
	}
	gradient := make([]float64, len(n))
	n.gradient(s, levels, make([]float64, len(levels)), gradient)
	for i, g := range gradient {
		kept := n[i]
		const step = 1e-7
		n[i] = kept + step
		above := byRow()
		n[i] = kept - step
		below := byRow()
		n[i] = kept
		if want := (above - below) / (2 * step); math.Abs(g-want) > 1e-6 {
			t.Errorf("parameter %d: %v, want %v", i, g, want)
		}
	}
}
