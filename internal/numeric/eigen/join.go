package eigen

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// join solves j and multiplies its eigenvectors with those of the two halves.
func (c *conquest) join(j *joint) {
	k := len(j.kept)
	if k == 0 {
		return
	}
	width := j.to - j.from
	room := c.spare[j.from*c.n : j.from*c.n+width*width]
	take := func(rows, cols int) blas64.General {
		g := blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: room[:rows*cols]}
		room = room[rows*cols:]
		return g
	}
	place, upper, lower := j.places()
	first, second := take(upper, j.mid-j.from), take(k-lower, j.to-j.mid)
	for t, i := range j.kept {
		if p := place[t]; p < upper {
			copy(first.Data[p*first.Stride:], c.row(i, j.from, j.mid))
		}
		if p := place[t] - lower; p >= 0 {
			copy(second.Data[p*second.Stride:], c.row(i, j.mid, j.to))
		}
	}
	deflated := take(len(j.deflated), width)
	values := make([]float64, len(j.deflated))
	for t, i := range j.deflated {
		copy(deflated.Data[t*width:], c.row(i, j.from, j.to))
		values[t] = c.values[i]
	}
	weights := blas64.General{Rows: k, Cols: k, Stride: k, Data: c.weights[j.from*c.n : j.from*c.n+k*k]}
	j.solve(c.values[j.from:j.from+k], weights, place)
	multiply := func(at, col int, g blas64.General) {
		to := blas64.General{Rows: k, Cols: g.Cols, Stride: c.n, Data: c.vectors[j.from*c.n+at:]}
		if g.Rows == 0 {
			for i := range k {
				clear(to.Data[i*to.Stride : i*to.Stride+to.Cols])
			}
			return
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, columns(weights, col, g.Rows), g, 0, to)
	}
	multiply(j.from, 0, first)
	multiply(j.mid, lower, second)
	for t, v := range values {
		c.values[j.from+k+t] = v
		copy(c.row(j.from+k+t, j.from, j.to), deflated.Data[t*width:(t+1)*width])
	}
}

// places returns the position of each kept vector, such that the vectors with entries in the
// upper half come first, upper of them, and those with entries in the lower half begin at
// lower.
func (j *joint) places() (place []int, upper, lower int) {
	var count, next [3]int
	for _, s := range j.support {
		count[s]++
	}
	next[bothHalves] = count[upperHalf]
	next[lowerHalf] = count[upperHalf] + count[bothHalves]
	place = make([]int, len(j.support))
	for t, s := range j.support {
		place[t] = next[s]
		next[s]++
	}
	return place, count[upperHalf] + count[bothHalves], count[upperHalf]
}

// workPerProcessor is roughly the least work that is worth a second processor.
const workPerProcessor = 1 << 13

// solve sets values to the eigenvalues of D + ρzzᵀ, and the rows of vectors to its unit
// eigenvectors, with entry t of each at place[t].
//
// The eigenvectors belong to the z for which the computed roots are exact. This makes them
// orthogonal, however close the roots are.
//
// Reference: Gu & Eisenstat (1994), A stable and efficient algorithm for the
// rank-one modification of the symmetric eigenproblem.
func (j *joint) solve(values []float64, vectors blas64.General, place []int) {
	k := len(j.d)
	grain := max(1, workPerProcessor/k)
	s := secular{d: j.d, rho: j.rho, squares: make([]float64, k)}
	for t, z := range j.z {
		s.squares[t] = z * z
	}
	gaps := func(i int) []float64 { return vectors.Data[i*k : (i+1)*k] }
	parallel(k, grain, func(from, to int) {
		for i := from; i < to; i++ {
			values[i] = s.root(i, gaps(i))
		}
	})
	z := make([]float64, k)
	parallel(k, grain, func(from, to int) {
		products := z[from:to]
		for t := range products {
			products[t] = 1
		}
		for i := range k {
			j.factors(products, gaps(i)[from:to], from, i)
		}
		for t, p := range products {
			z[from+t] = math.Copysign(math.Sqrt(math.Abs(p)), j.z[from+t])
		}
	})
	parallel(k, grain, func(from, to int) {
		entries := make([]float64, k)
		for i := from; i < to; i++ {
			row := gaps(i)
			for t, gap := range row {
				entries[t] = z[t] / gap
			}
			scale := 1 / math.Sqrt(blas64.Dot(vector(entries), vector(entries)))
			for t, p := range place {
				row[p] = scale * entries[t]
			}
		}
	})
}

// factors multiplies products, which belong to the values from index from on, by the
// contribution of root i to z².
func (j *joint) factors(products, gaps []float64, from, i int) {
	d := j.d[from : from+len(products)]
	gaps = gaps[:len(products)]
	pole := j.d[i]
	for t := range products {
		if from+t == i {
			products[t] *= gaps[t]
		} else {
			products[t] *= gaps[t] / (d[t] - pole)
		}
	}
}
