package baselines

import "math"

// softmax is a softmax at some temperature in a form that keeps its precision
// where one class has nearly all of the mass.
type softmax struct {
	top    int     // index of the largest logit
	max    float64 // the largest logit divided by the temperature
	excess float64 // Σ exp(z/T − max) over all but the top
}

func newSoftmax(z []float32, temperature float64) softmax {
	var s softmax
	for j, v := range z {
		if v > z[s.top] {
			s.top = j
		}
	}
	s.max = float64(z[s.top]) / temperature
	for j, v := range z {
		if j != s.top {
			s.excess += math.Exp(float64(v)/temperature - s.max)
		}
	}
	return s
}

// largest is the largest probability.
func (s softmax) largest() float64 { return 1 / (1 + s.excess) }

// of is the probability of a class with logit z.
func (s softmax) of(z float32, temperature float64) float64 {
	return math.Exp(float64(z)/temperature-s.max) / (1 + s.excess)
}
