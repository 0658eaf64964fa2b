// Package softmax computes the softmax of a row of logits.
package softmax

import "math"

// Softmax represents a softmax in a form that stays precise if one class has nearly all of the
// probability. z are the logits and T is the temperature.
type Softmax struct {
	Top    int     // index of the largest logit
	Max    float64 // largest z/T
	Excess float64 // Σ exp(z/T − Max) over all classes except Top
}

// New returns the softmax of the logits z.
func New(z []float32, temperature float64) Softmax {
	var s Softmax
	for j, v := range z {
		if v > z[s.Top] {
			s.Top = j
		}
	}
	s.Max = float64(z[s.Top]) / temperature
	for j, v := range z {
		if j != s.Top {
			s.Excess += math.Exp(float64(v)/temperature - s.Max)
		}
	}
	return s
}

// LogSum returns log Σ exp(z/T) over all classes.
func (s Softmax) LogSum() float64 { return s.Max + math.Log1p(s.Excess) }

// Largest returns the largest probability.
func (s Softmax) Largest() float64 { return 1 / (1 + s.Excess) }

// Of returns the probability of a class with logit z.
func (s Softmax) Of(z float32, temperature float64) float64 {
	return math.Exp(float64(z)/temperature-s.Max) / (1 + s.Excess)
}
