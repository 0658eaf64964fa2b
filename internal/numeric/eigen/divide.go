package eigen

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

const (
	// leafSize is the size up to which a matrix is solved directly.
	leafSize = 32
	// branchSize is the size from which on the two halves are solved in parallel.
	branchSize = 96
)

// conquest is a tridiagonal matrix while its eigenvalues and eigenvectors are computed. Work
// on a range of indices touches only elements of that range.
type conquest struct {
	n       int
	values  []float64 // the diagonal at the beginning, eigenvalues at the end
	off     []float64
	vectors []float64 // n×n, in rows
	order   []int     // indices of a solved part, by increasing eigenvalue
	spare   []float64 // n×n
	weights []float64 // n×n
	least   float64   // elements below this are negligible
}

// divide finds the eigenvalues and eigenvectors of the tridiagonal matrix with diagonal d and
// off-diagonal e, which it overwrites. It solves the halves separately and combines them by a
// rank-one update.
//
// Reference: Cuppen (1981), A divide and conquer method for the symmetric
// tridiagonal eigenproblem; Gu & Eisenstat (1995).
func divide(d, e []float64) (*conquest, error) {
	const eps = 0x1p-53
	n := len(d)
	c := &conquest{
		n: n, values: d, off: e, order: make([]int, n), least: eps * eps * largest(d, e),
		vectors: make([]float64, n*n), spare: make([]float64, n*n), weights: make([]float64, n*n),
	}
	if err := c.solve(0, n); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *conquest) solve(from, to int) error {
	if to-from <= leafSize {
		err := leaf(c.values[from:to], c.off[from:max(to-1, from)], c.vectors[from*c.n+from:], c.n)
		c.sort(from, to)
		return err
	}
	mid := from + (to-from)/2
	off := c.off[mid-1]
	c.values[mid-1] -= math.Abs(off)
	c.values[mid] -= math.Abs(off)
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
	c.join(c.deflate(from, mid, to, off))
	c.sort(from, to)
	return nil
}

// sort orders the eigenvalues of a solved part.
func (c *conquest) sort(from, to int) {
	part := c.order[from:to]
	for i := range part {
		part[i] = from + i
	}
	slices.SortStableFunc(part, func(i, j int) int { return cmp.Compare(c.values[i], c.values[j]) })
}

// row returns the elements of eigenvector i in a range of indices.
func (c *conquest) row(i, from, to int) []float64 { return c.vectors[i*c.n+from : i*c.n+to] }
