// Package duplicates finds rows that are nearly the same, by exhaustive search, in
// memory that is bounded beside the rows themselves.
package duplicates

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

const (
	block = 512 // rows in one product with as many others

	// slack is how far a product of float32 may be below the cosine, which is then
	// computed in float64: sums of thousands of terms err by some millionths.
	slack = 1e-4
)

// Groups are the rows of x, n×h, that are joined by pairs with at least that
// cosine, in (0,1]: any two of a group, by a chain of such pairs (single linkage).
// Groups of one are left out; rows increase, and so do the first rows of groups. A
// row of zeros, or one that is not finite, is like no other.
func Groups(ctx context.Context, x blas32.General, cosine float64) ([][]int, error) {
	scale := make([]float64, x.Rows)
	parent := make([]int, x.Rows)
	for i := range parent {
		scale[i], parent[i] = rows.InverseNorm(rows.Row(x, i)), i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	size := min(block, x.Rows)
	a, b, products := rows.New(size, x.Cols), rows.New(size, x.Cols), make([]float32, size*size)
	load := func(into *blas32.General, first int) {
		into.Rows = min(block, x.Rows-first)
		for r := range into.Rows {
			dst := rows.Row(*into, r)
			for j, v := range rows.Row(x, first+r) {
				dst[j] = float32(scale[first+r] * float64(v))
			}
		}
	}
	for i := 0; i < x.Rows; i += block {
		load(&a, i)
		for j := i; j < x.Rows; j += block {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			load(&b, j)
			c := blas32.General{Rows: a.Rows, Cols: b.Rows, Stride: b.Rows, Data: products[:a.Rows*b.Rows]}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, c)
			for r := range a.Rows {
				for s, p := range rows.Row(c, r) {
					if j+s <= i+r || !(float64(p) >= cosine-slack) {
						continue
					}
					// Of many copies most pairs are joined already.
					from, to := root(i+r), root(j+s)
					if from != to && scale[i+r]*scale[j+s]*dot(rows.Row(x, i+r), rows.Row(x, j+s)) >= cosine*(1-1e-9) {
						parent[max(from, to)] = min(from, to)
					}
				}
			}
		}
	}
	members := map[int][]int{}
	for i := range parent {
		members[root(i)] = append(members[root(i)], i)
	}
	var groups [][]int
	for _, group := range members {
		if len(group) > 1 {
			groups = append(groups, group)
		}
	}
	slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
	return groups, nil
}

func dot(a, b []float32) (sum float64) {
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
