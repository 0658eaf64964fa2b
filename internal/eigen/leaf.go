package eigen

import "math"

// stepsPerValue bounds the QR steps taken, per eigenvalue on average.
const stepsPerValue = 30

// leaf turns the small tridiagonal matrix with diagonal d and off-diagonal e
// into its eigenvalues, in d, in no order, and multiplies the n rows of z, stride
// apart, by the rotations, the first len(d) elements of each: if z starts as the
// identity, they become eigenvectors.
//
// Reference: Golub & Van Loan (2013), algorithms 8.3.2 and 8.3.3.
func leaf(d, e, z []float64, stride int) error {
	const eps = 0x1p-53
	n := len(d)
	norm := largest(d, e)
	if norm == 0 {
		return nil
	}
	small := func(i int) bool {
		return math.Abs(e[i]) <= eps*(math.Abs(d[i])+math.Abs(d[i+1])) || math.Abs(e[i]) <= eps*eps*norm
	}
	// Squares of what counts must neither overflow nor vanish.
	_, exponent := math.Frexp(norm)
	scale := math.Ldexp(1, -max(-1000, min(exponent, 1000)))
	rescale(d, scale)
	rescale(e, scale)
	norm *= scale
	defer rescale(d, 1/scale)
	hi := n - 1
	for range stepsPerValue * n {
		for hi > 0 && small(hi-1) {
			e[hi-1] = 0
			hi--
		}
		if hi <= 0 {
			return nil
		}
		lo := hi - 1
		for lo > 0 && !small(lo-1) {
			lo--
		}
		step(d, e, lo, hi, z, stride)
	}
	return ErrNoConvergence
}

// largest is the greatest magnitude in d and e.
func largest(d, e []float64) float64 {
	var norm float64
	for _, v := range d {
		norm = max(norm, math.Abs(v))
	}
	for _, v := range e {
		norm = max(norm, math.Abs(v))
	}
	return norm
}

func rescale(v []float64, by float64) {
	for i := range v {
		v[i] *= by
	}
}

// step is one QR step with Wilkinson's shift on rows lo…hi, whose
// off-diagonals are not zero.
func step(d, e []float64, lo, hi int, z []float64, stride int) {
	half := (d[hi-1] - d[hi]) / 2
	off := e[hi-1]
	shift := d[hi] - off*(off/(half+math.Copysign(math.Hypot(half, off), half)))
	x, y := d[lo]-shift, e[lo]
	for k := lo; k < hi; k++ {
		// Not math.Hypot, which takes as long as the rest: the matrix is scaled.
		length := math.Sqrt(x*x + y*y)
		c, s := 1.0, 0.0
		if length > 0 {
			c, s = x/length, y/length
		}
		if k > lo {
			e[k-1] = length
		}
		a, b, g := d[k], e[k], d[k+1]
		t := s*(g-a) + 2*c*b
		d[k] = a + s*t
		d[k+1] = g - s*t
		e[k] = c*t - b
		if k < hi-1 {
			x, y = e[k], s*e[k+1]
			e[k+1] *= c
		}
		turn(z[k*stride:k*stride+len(d)], z[(k+1)*stride:(k+1)*stride+len(d)], c, s)
	}
}

// turn takes (u, v) to (cu+sv, cv−su).
func turn(u, v []float64, c, s float64) {
	v = v[:len(u)]
	for i, a := range u {
		b := v[i]
		u[i] = c*a + s*b
		v[i] = c*b - s*a
	}
}
