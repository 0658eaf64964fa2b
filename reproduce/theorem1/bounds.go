package theorem1

import "math"

// Response is the distribution of the squared norm ‖z‖² of a Gaussian vector
// z of mean 0 with independent components: what certificates make of Gaussian
// features, as a sum and not the mean that Certificates.Score is. Theorem 1 of
// the paper is about its upper tail.
type Response struct {
	Variances []float64 // of each component, zero or positive
}

// Mean is the expectation of ‖z‖².
func (r Response) Mean() float64 {
	var s float64
	for _, v := range r.Variances {
		s += v
	}
	return s
}

// The bounds below are of P(‖z‖² − E‖z‖² ≥ t), t ≥ 0.

// PrintedBound is exp(−t²/(2·max variance)), as theorem 1 of the paper prints
// it, for in-domain data and, with their variances, out-of-domain data. It is no bound:
// ‖·‖² is not Lipschitz. For one variance of 1 and t = 5 the tail is .0143 and
// PrintedBound 3.7e-6. Use LaurentMassart or Chernoff.
func (r Response) PrintedBound(t float64) float64 {
	return r.degenerate(t, func(largest float64) float64 { return math.Exp(-t * t / (2 * largest)) })
}

// NormBound is what the paper's proof gives where it is applied to the norm,
// which is √max variance-Lipschitz, and not to its square:
//
//	P(‖z‖ ≥ E‖z‖ + u) ≤ exp(−u²/(2·max variance)) with u = √(E‖z‖²+t) − √E‖z‖²
//
// since E‖z‖ ≤ √E‖z‖².
//
// Reference: Boucheron, Lugosi & Massart (2013), Concentration Inequalities,
// theorem 5.6.
func (r Response) NormBound(t float64) float64 {
	return r.degenerate(t, func(largest float64) float64 {
		m := r.Mean()
		u := t / (math.Sqrt(m+t) + math.Sqrt(m)) // the difference of the roots, without cancellation
		return math.Exp(-u * u / (2 * largest))
	})
}

// LaurentMassart is the e^{−x} for which t = 2a√x + 2bx, with b the largest
// variance γ and a² = Σγ² + 2Σγμ² over variances and means μ.
//
// Reference: Laurent & Massart (2000), Adaptive estimation of a quadratic
// functional by model selection, lemma 1, and for means Birgé (2001), An
// alternative point of view on Lepski's method, lemma 8.1; weighted as in
// their proofs.
func (r Response) LaurentMassart(t float64) float64 {
	return r.degenerate(t, func(b float64) float64 {
		var a2 float64
		for _, v := range r.Variances {
			a2 += v * v
		}
		a := math.Sqrt(a2)
		root := t / (a + math.Sqrt(a2+2*b*t)) // of x
		return math.Exp(-root * root)
	})
}

// Chernoff is the least of E exp(s(‖z‖²−E‖z‖²−t)) over 0 ≤ s < 1/(2·max
// variance), the best bound of its kind, found by bisection.
func (r Response) Chernoff(t float64) float64 {
	return r.degenerate(t, func(largest float64) float64 {
		low, high := 0.0, 1/(2*largest)
		for range 200 {
			s := (low + high) / 2
			if s == low || s == high {
				break
			}
			if _, slope := r.logMoment(s); slope < t {
				low = s
			} else {
				high = s
			}
		}
		log, _ := r.logMoment(low)
		return math.Exp(min(log-low*t, 0))
	})
}

// logMoment is ln E exp(s(‖z‖²−E‖z‖²)) and its derivative by s, which grows.
func (r Response) logMoment(s float64) (log, slope float64) {
	for _, v := range r.Variances {
		u := 2 * s * v
		log += -math.Log1p(-u)/2 - u/2
		slope += v * u / (1 - u)
	}
	return log, slope
}

// degenerate handles what all bounds share: a t that is not positive, and a
// vector that is constant.
func (r Response) degenerate(t float64, bound func(largest float64) float64) float64 {
	var largest float64
	for _, v := range r.Variances {
		largest = max(largest, v)
	}
	switch {
	case t <= 0:
		return 1
	case largest == 0:
		return 0
	}
	return bound(largest)
}
