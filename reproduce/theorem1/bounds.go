package theorem1

import "math"

// Response is the distribution of ‖z‖² for a Gaussian vector z with mean 0 and independent
// components. Certificates map Gaussian features to such a z. The score of a detector of
// certificates is the mean of the squares instead of the sum. Theorem 1 of the paper bounds
// the upper tail of ‖z‖².
type Response struct {
	Variances []float64 // variances of the components; not negative
}

// Mean returns the expectation of ‖z‖².
func (r Response) Mean() float64 {
	var s float64
	for _, v := range r.Variances {
		s += v
	}
	return s
}

// The methods below return bounds of P(‖z‖² − E‖z‖² ≥ t) for t ≥ 0.

// PrintedBound returns exp(−t²/(2·max variance)), the bound in theorem 1 of the paper for
// in-distribution and out-of-distribution data. It does not hold, because ‖·‖² is not
// Lipschitz. For example, with one variance of 1 and t = 5, the tail is 0.0143 but
// PrintedBound is 3.7e-6. Use LaurentMassart or Chernoff.
func (r Response) PrintedBound(t float64) float64 {
	return r.handleDegenerate(t, func(largest float64) float64 { return math.Exp(-t * t / (2 * largest)) })
}

// NormBound applies the paper's proof to the norm instead of its square. Unlike the square,
// the norm is Lipschitz, with the constant √max variance:
//
//	P(‖z‖ ≥ E‖z‖ + u) ≤ exp(−u²/(2·max variance)) with u = √(E‖z‖²+t) − √E‖z‖²
//
// The function uses E‖z‖ ≤ √E‖z‖².
//
// Reference: Boucheron, Lugosi & Massart (2013), Concentration Inequalities, theorem 5.6.
func (r Response) NormBound(t float64) float64 {
	return r.handleDegenerate(t, func(largest float64) float64 {
		m := r.Mean()
		u := t / (math.Sqrt(m+t) + math.Sqrt(m)) // difference of the square roots, without cancellation
		return math.Exp(-u * u / (2 * largest))
	})
}

// LaurentMassart returns e^{−x} for the x with t = 2a√x + 2bx. Here b is the largest
// variance γ, and a² = Σγ² + 2Σγμ² over variances γ and means μ, which are 0 here.
func (r Response) LaurentMassart(t float64) float64 {
	return r.handleDegenerate(t, func(b float64) float64 {
		var a2 float64
		for _, v := range r.Variances {
			a2 += v * v
		}
		a := math.Sqrt(a2)
		root := t / (a + math.Sqrt(a2+2*b*t)) // √x
		return math.Exp(-root * root)
	})
}

// Chernoff returns the minimum of E exp(s(‖z‖²−E‖z‖²−t)) over 0 ≤ s < 1/(2·max variance).
// Bisection finds this best bound of exponential form.
func (r Response) Chernoff(t float64) float64 {
	return r.handleDegenerate(t, func(largest float64) float64 {
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
		logMGF, _ := r.logMoment(low)
		return math.Exp(min(logMGF-low*t, 0))
	})
}

// logMoment returns ln E exp(s(‖z‖²−E‖z‖²)) and its derivative by s, which increases with
// s.
func (r Response) logMoment(s float64) (logMGF, slope float64) {
	for _, v := range r.Variances {
		u := 2 * s * v
		logMGF += -math.Log1p(-u)/2 - u/2
		slope += v * u / (1 - u)
	}
	return logMGF, slope
}

// handleDegenerate handles the cases that all bounds share: t ≤ 0 and a constant vector.
func (r Response) handleDegenerate(t float64, bound func(largest float64) float64) float64 {
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
