package eigen

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// join solves the coupled problem j and multiplies its eigenvectors with the eigenvectors of
// the two halves.
func (c *solver) join(j *coupledProblem) {
	k := len(j.active)
	if k == 0 {
		return
	}
	size := j.to - j.from
	buffer := c.scratch[j.from*c.n : j.from*c.n+size*size]
	allocate := func(rows, cols int) blas64.General {
		g := blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: buffer[:rows*cols]}
		buffer = buffer[rows*cols:]
		return g
	}
	positions, upper, lower := j.positions()
	first, second := allocate(upper, j.mid-j.from), allocate(k-lower, j.to-j.mid)
	for t, i := range j.active {
		if position := positions[t]; position < upper {
			copy(first.Data[position*first.Stride:], c.row(i, j.from, j.mid))
		}
		if position := positions[t] - lower; position >= 0 {
			copy(second.Data[position*second.Stride:], c.row(i, j.mid, j.to))
		}
	}
	deflated := allocate(len(j.deflated), size)
	values := make([]float64, len(j.deflated))
	for t, i := range j.deflated {
		copy(deflated.Data[t*size:], c.row(i, j.from, j.to))
		values[t] = c.values[i]
	}
	weights := blas64.General{Rows: k, Cols: k, Stride: k, Data: c.weights[j.from*c.n : j.from*c.n+k*k]}
	j.solve(c.values[j.from:j.from+k], weights, positions)
	multiply := func(start, col int, g blas64.General) {
		dst := blas64.General{Rows: k, Cols: g.Cols, Stride: c.n, Data: c.vectors[j.from*c.n+start:]}
		if g.Rows == 0 {
			for i := range k {
				clear(dst.Data[i*dst.Stride : i*dst.Stride+dst.Cols])
			}
			return
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, columns(weights, col, g.Rows), g, 0, dst)
	}
	multiply(j.from, 0, first)
	multiply(j.mid, lower, second)
	for t, v := range values {
		c.values[j.from+k+t] = v
		copy(c.row(j.from+k+t, j.from, j.to), deflated.Data[t*size:(t+1)*size])
	}
}

// positions returns a position for each active eigenvector. Vectors with entries only in
// the upper half come first, then those with entries in both halves, then those with
// entries only in the lower half. Vectors at positions below upper have entries in the
// upper half, and vectors at positions of at least lower have entries in the lower half.
func (j *coupledProblem) positions() (positions []int, upper, lower int) {
	var count, next [3]int
	for _, s := range j.support {
		count[s]++
	}
	next[bothHalves] = count[upperHalf]
	next[lowerHalf] = count[upperHalf] + count[bothHalves]
	positions = make([]int, len(j.support))
	for t, s := range j.support {
		positions[t] = next[s]
		next[s]++
	}
	return positions, count[upperHalf] + count[bothHalves], count[upperHalf]
}

// minWorkPerProcessor is the approximate number of elements below which another processor does
// not save time.
const minWorkPerProcessor = 1 << 13

// solve sets values to the eigenvalues of D + ρzzᵀ, and the rows of vectors to its unit
// eigenvectors. Entry t of an eigenvector is at positions[t] of its row.
//
// The eigenvectors are computed from a slightly different z, for which the computed
// eigenvalues are exact. They are therefore orthogonal even if eigenvalues are very close.
//
// Reference: Gu & Eisenstat (1994), A stable and efficient algorithm for the
// rank-one modification of the symmetric eigenproblem.
func (j *coupledProblem) solve(values []float64, vectors blas64.General, positions []int) {
	k := len(j.d)
	minIndices := max(1, minWorkPerProcessor/k)
	s := secularEquation{d: j.d, rho: j.rho, squares: make([]float64, k)}
	for t, z := range j.z {
		s.squares[t] = z * z
	}
	gaps := func(i int) []float64 { return vectors.Data[i*k : (i+1)*k] }
	parallel(k, minIndices, func(from, to int) {
		for i := from; i < to; i++ {
			values[i] = s.root(i, gaps(i))
		}
	})
	z := make([]float64, k)
	parallel(k, minIndices, func(from, to int) {
		products := z[from:to]
		for t := range products {
			products[t] = 1
		}
		for i := range k {
			j.multiplyFactors(products, gaps(i)[from:to], from, i)
		}
		for t, p := range products {
			z[from+t] = math.Copysign(math.Sqrt(math.Abs(p)), j.z[from+t])
		}
	})
	parallel(k, minIndices, func(from, to int) {
		entries := make([]float64, k)
		for i := from; i < to; i++ {
			row := gaps(i)
			for t, gap := range row {
				entries[t] = z[t] / gap
			}
			scale := 1 / math.Sqrt(blas64.Dot(vector(entries), vector(entries)))
			for t, p := range positions {
				row[p] = scale * entries[t]
			}
		}
	})
}

// multiplyFactors multiplies products by the factors of eigenvalue i. products[t]
// accumulates the square of entry from+t of z. gaps[t] is the difference between element
// from+t of d and the eigenvalue.
func (j *coupledProblem) multiplyFactors(products, gaps []float64, from, i int) {
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
