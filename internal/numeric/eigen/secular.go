package eigen

import "math"

// secularEquation is the equation f(λ) = 1/ρ + Σ zⱼ²/(dⱼ−λ) = 0. Its roots are the eigenvalues
// of D + ρzzᵀ. There is one root between each two neighbours in d, and one above all of d.
//
// Reference: Li (1993), Solving secular equations stably and efficiently.
type secularEquation struct {
	d       []float64 // strictly increasing
	squares []float64 // zⱼ² for each j, not 0
	rho     float64   // positive
}

// maxSecularSteps limits the evaluations for one root. More than ten are rarely necessary.
const maxSecularSteps = 200

// root returns root i, called λ. It sets gaps to the differences dⱼ−λ for all j, each with a
// small relative error.
func (s secularEquation) root(i int, gaps []float64) float64 {
	var b bracket
	last := i == len(s.d)-1
	if last {
		b = s.bracketLast()
	} else {
		b = s.bracket(i)
	}
	slow, previous := false, 0.
	for steps := 0; ; steps++ {
		v := s.evaluate(i, b.origin, b.x, gaps)
		if math.Abs(v.f) <= v.noise || steps == maxSecularSteps {
			break
		}
		if v.f < 0 {
			b.lo = b.x
		} else {
			b.hi = b.x
		}
		if v.f*previous > 0 && math.Abs(v.f) > math.Abs(previous)/10 {
			slow = !slow
		}
		previous = v.f
		step := 0.
		if last {
			step = v.onePoleStep(gaps[i])
		} else {
			step = s.twoPoleStep(i, v, b.left, slow, gaps)
		}
		if !(step*v.f < 0) {
			step = -v.f / (v.below + v.above)
		}
		next := b.x + step
		if !(next > b.lo && next < b.hi) {
			next = b.middle()
		}
		if next == b.x {
			break
		}
		b.x = next
	}
	return b.origin + b.x
}

// bracket contains a root at origin + x, with x between lo and hi. The origin is the dⱼ that
// is nearer to the root, because a small x has a small rounding error.
type bracket struct {
	origin, x, lo, hi float64
	left              bool // whether the origin is below the root
}

// middle returns a point inside the bracket. Its magnitude lies between the magnitudes of the
// ends.
func (b bracket) middle() float64 {
	nearEnd, farEnd := b.lo, b.hi
	if !b.left {
		nearEnd, farEnd = farEnd, nearEnd
	}
	switch {
	case nearEnd == 0:
		return farEnd / 16
	case farEnd/nearEnd > 4:
		return math.Sqrt(nearEnd/farEnd) * farEnd
	}
	return nearEnd + (farEnd-nearEnd)/2
}

// bracket returns a bracket of the root between d[i] and d[i+1], with a first guess. The guess
// treats all poles except these two as constant.
func (s secularEquation) bracket(i int) bracket {
	width := s.d[i+1] - s.d[i]
	half := width / 2
	others := 1 / s.rho
	for j, z := range s.squares[:i] {
		others += z / ((s.d[j] - s.d[i]) - half)
	}
	for j := i + 2; j < len(s.d); j++ {
		others += s.squares[j] / ((s.d[j] - s.d[i]) - half)
	}
	p, q := s.squares[i], s.squares[i+1]
	b := bracket{origin: s.d[i], hi: half, left: true}
	if others-p/half+q/half > 0 {
		b.x = quadratic(others, others*width+p+q, p*width)
	} else {
		b = bracket{origin: s.d[i+1], lo: -half}
		b.x = -quadratic(-others, -others*width+p+q, q*width)
	}
	if !(b.x > b.lo && b.x < b.hi) {
		b.x = b.middle()
	}
	return b
}

// bracketLast returns a bracket of the largest root.
func (s secularEquation) bracketLast() bracket {
	var sum float64
	for _, z := range s.squares {
		sum += z
	}
	far := s.rho * sum
	return bracket{origin: s.d[len(s.d)-1], x: far, hi: far * (1 + 0x1p-40), left: true}
}

// quadratic returns the root (a − √(a²−4bc)) / 2c of the polynomial cx² − ax + b.
func quadratic(c, a, b float64) float64 {
	root := math.Sqrt(math.Max(a*a-4*b*c, 0))
	if a > 0 {
		return 2 * b / (a + root)
	}
	return (a - root) / (2 * c)
}

// evaluation holds f and its derivatives at a point.
type evaluation struct {
	f            float64
	below, above float64 // derivatives of the sums over the poles below and above the root
	noise        float64 // bound on the rounding error of f
}

// evaluate evaluates f at λ = origin + x, and sets gaps to the differences dⱼ−λ.
func (s secularEquation) evaluate(i int, origin, x float64, gaps []float64) evaluation {
	const eps = 0x1p-53
	low, below := poles(s.d[:i+1], s.squares[:i+1], gaps[:i+1], origin, x)
	high, above := poles(s.d[i+1:], s.squares[i+1:], gaps[i+1:], origin, x)
	level := 1 / s.rho
	return evaluation{
		f: level + low + high, below: below, above: above,
		noise: eps * (8*(level+high-low) + math.Abs(x)*(below+above)),
	}
}

// poles returns Σ zⱼ²/(dⱼ−λ) and its derivative at λ = origin + x, and sets gaps.
func poles(d, squares, gaps []float64, origin, x float64) (sum, slope float64) {
	squares, gaps = squares[:len(d)], gaps[:len(d)]
	for j, v := range d {
		gap := (v - origin) - x
		gaps[j] = gap
		inverse := 1 / gap
		term := squares[j] * inverse
		sum += term
		slope += term * inverse
	}
	return sum, slope
}

// twoPoleStep returns the step from the current λ to the root of a model of f. The model is a
// constant plus the two poles next to the root. It has the value and the derivative of f at λ.
// In addition, it keeps the weight of the nearer pole or, if convergence is slow, the
// derivatives of the sums on both sides.
func (s secularEquation) twoPoleStep(i int, v evaluation, left, slow bool, gaps []float64) float64 {
	p, q := gaps[i], gaps[i+1]
	slope := v.below + v.above
	var level float64
	switch {
	case slow:
		level = v.f - p*v.below - q*v.above
	case left:
		level = v.f - q*slope + (s.d[i+1]-s.d[i])*s.squares[i]/(p*p)
	default:
		level = v.f - p*slope - (s.d[i+1]-s.d[i])*s.squares[i+1]/(q*q)
	}
	return quadratic(level, (p+q)*v.f-p*q*slope, p*q*v.f)
}

// onePoleStep returns the step from the current λ to the root of a model of f. The model is a
// constant plus the last pole, and has the value and the derivative of f at λ.
func (v evaluation) onePoleStep(gap float64) float64 {
	return gap * v.f / (v.f - gap*v.below)
}
