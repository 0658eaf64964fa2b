package eigen

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

const (
	// leafSize is the largest size of a matrix that is solved directly.
	leafSize = 32
	// branchSize is the smallest size of a matrix whose halves are solved in parallel.
	branchSize = 96
)

// solver holds a tridiagonal matrix while its eigenvalues and eigenvectors are computed. Work
// on a range of indices touches only elements of that range, so ranges can be solved in
// parallel.
type solver struct {
	n           int
	values      []float64 // the diagonal first, and the eigenvalues in the end
	offDiagonal []float64
	vectors     []float64 // n×n, one eigenvector in each row
	order       []int     // indices of each solved part, in order of increasing eigenvalue
	scratch     []float64 // memory for n×n elements
	weights     []float64 // n×n, eigenvectors of coupled problems
	negligible  float64   // elements below this count as 0
}

// divideAndConquer computes the eigenvalues and eigenvectors of the tridiagonal matrix with
// diagonal d and off-diagonal e. It overwrites d and e. It solves the halves of the matrix
// separately and combines them by a rank-one update.
//
// Reference: Cuppen (1981), A divide and conquer method for the symmetric
// tridiagonal eigenproblem; Gu & Eisenstat (1995).
func divideAndConquer(d, e []float64) (*solver, error) {
	const eps = 0x1p-53
	n := len(d)
	c := &solver{
		n: n, values: d, offDiagonal: e, order: make([]int, n), negligible: eps * eps * largest(d, e),
		vectors: make([]float64, n*n), scratch: make([]float64, n*n), weights: make([]float64, n*n),
	}
	if err := c.solve(0, n); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *solver) solve(from, to int) error {
	if to-from <= leafSize {
		err := solveLeaf(c.values[from:to], c.offDiagonal[from:max(to-1, from)], c.vectors[from*c.n+from:], c.n)
		c.sort(from, to)
		return err
	}
	mid := from + (to-from)/2
	offDiagonal := c.offDiagonal[mid-1]
	c.values[mid-1] -= math.Abs(offDiagonal)
	c.values[mid] -= math.Abs(offDiagonal)
	var first, second error
	if to-from < branchSize {
		first, second = c.solve(from, mid), c.solve(mid, to)
	} else {
		var wg sync.WaitGroup
		wg.Go(func() { second = c.solve(mid, to) })
		first = c.solve(from, mid)
		wg.Wait()
	}
	if first != nil {
		return first
	}
	if second != nil {
		return second
	}
	c.join(c.deflate(from, mid, to, offDiagonal))
	c.sort(from, to)
	return nil
}

// sort sets the order of the eigenvalues of a solved part.
func (c *solver) sort(from, to int) {
	part := c.order[from:to]
	for i := range part {
		part[i] = from + i
	}
	slices.SortStableFunc(part, func(i, j int) int { return cmp.Compare(c.values[i], c.values[j]) })
}

// row returns the elements of eigenvector i with indices in [from,to).
func (c *solver) row(i, from, to int) []float64 { return c.vectors[i*c.n+from : i*c.n+to] }
