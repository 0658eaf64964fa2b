package eigen

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
)

// support describes which half of an eigenvector has nonzero entries. An eigenvector starts in
// one half, and a rotation can spread it over both.
type support int

const (
	upperHalf support = iota
	bothHalves
	lowerHalf
)

// coupledProblem is the eigenproblem D + ρzzᵀ that combines two solved halves, [from,mid) and
// [mid,to).
type coupledProblem struct {
	from, mid, to int
	rho           float64
	active        []int // rows whose eigenpairs change, in order of increasing eigenvalue
	d, z          []float64
	support       []support
	deflated      []int // rows whose eigenpairs do not change
}

// deflate sets up the problem that combines two halves. offDiagonal is the matrix element
// between them. deflate removes the eigenpairs that the coupling does not change. These are
// vectors without weight in z. If two eigenvalues are numerically equal, a rotation removes
// the weight of one of the two vectors.
//
// Reference: Dongarra & Sorensen (1987), A fully parallel algorithm for the
// symmetric eigenvalue problem.
func (c *solver) deflate(from, mid, to int, offDiagonal float64) *coupledProblem {
	const eps = 0x1p-53
	j := &coupledProblem{from: from, mid: mid, to: to, rho: 2 * math.Abs(offDiagonal)}
	order := c.mergedOrder(from, mid, to)
	z, supports := make([]float64, to-from), make([]support, to-from)
	for i := from; i < mid; i++ {
		z[i-from] = c.vectors[i*c.n+mid-1] * math.Sqrt2 / 2
	}
	for i := mid; i < to; i++ {
		z[i-from] = c.vectors[i*c.n+mid] * math.Copysign(math.Sqrt2/2, offDiagonal)
		supports[i-from] = lowerHalf
	}
	tolerance := max(8*eps*max(largest(c.values[from:to], nil), j.rho), c.negligible)
	keep := func(i int) {
		j.active = append(j.active, i)
		j.d = append(j.d, c.values[i])
		j.z = append(j.z, z[i-from])
		j.support = append(j.support, supports[i-from])
	}
	pending := -1
	for _, i := range order {
		if j.rho*math.Abs(z[i-from]) <= tolerance {
			j.deflated = append(j.deflated, i)
			continue
		}
		if pending < 0 {
			pending = i
			continue
		}
		length := math.Hypot(z[pending-from], z[i-from])
		cos, sin := z[i-from]/length, -z[pending-from]/length
		p, q := c.values[pending], c.values[i]
		if math.Abs((q-p)*cos*sin) > tolerance {
			keep(pending)
			pending = i
			continue
		}
		blas64.Rot(vector(c.row(pending, from, to)), vector(c.row(i, from, to)), cos, sin)
		c.values[pending], c.values[i] = p*cos*cos+q*sin*sin, p*sin*sin+q*cos*cos
		z[i-from] = length
		if supports[i-from] != supports[pending-from] {
			supports[i-from] = bothHalves
		}
		j.deflated = append(j.deflated, pending)
		pending = i
	}
	if pending >= 0 {
		keep(pending)
	}
	return j
}

// mergedOrder returns the indices of two solved halves in order of increasing eigenvalue.
func (c *solver) mergedOrder(from, mid, to int) []int {
	out := make([]int, 0, to-from)
	first, second := c.order[from:mid], c.order[mid:to]
	for len(first) > 0 && len(second) > 0 {
		if c.values[second[0]] < c.values[first[0]] {
			out, second = append(out, second[0]), second[1:]
		} else {
			out, first = append(out, first[0]), first[1:]
		}
	}
	return append(append(out, first...), second...)
}
