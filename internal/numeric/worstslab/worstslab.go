// Package worstslab finds the slab with the lowest coverage. A slab is the set of rows between
// two parallel hyperplanes.
package worstslab

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

const (
	// directions is the number of random directions of slab normals, as in the code of
	// Cauchois et al.
	directions = 1000
	// directionsAtOnce is the number of directions on which rows are projected at once.
	directionsAtOnce = 50
	// Share is the smallest fraction of the rows that a slab must contain.
	Share = .1
)

// Slab counts the rows in a slab, and the covered rows among them.
type Slab struct{ Covered, Rows int }

// Worst finds a slab with low coverage for each of several predictions, and measures it on
// held-out rows. covered[k][i] reports whether prediction k covers row i of x.
//
// The search uses a random half of the rows. A slab contains at least a fraction Share of
// this half, and its normal is the best of many random directions. Columns are
// standardised. The other half gives unbiased counts of the rows in the slab and of the
// covered rows among them. Worst returns nil if x has fewer than 20 rows, if there are no
// predictions, or if the context ends.
//
// Reference: Cauchois, Gupta & Duchi (2021), Knowing what You Know: valid and
// validated confidence sets in multiclass and multilabel prediction, section 4.
func Worst(ctx context.Context, x blas32.General, covered [][]bool, seed uint64) []Slab {
	half := x.Rows / 2
	if half < 10 || len(covered) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x51ab))
	order := rng.Perm(x.Rows)
	searched := rows.Select(x, order[:half])
	scaling := rows.NewScaling(searched)
	searched, heldOut := scaling.Apply(searched), scaling.Apply(rows.Select(x, order[half:]))
	best := make([]candidate, len(covered))
	for i := range best {
		best[i].fraction = math.Inf(1)
	}
	minRows := int(math.Ceil(Share * float64(half)))
	projections, normals := rows.New(half, directionsAtOnce), rows.New(x.Cols, directionsAtOnce)
	sorted, prefix := make([]uint64, half), make([]int, half+1)
	for range directions / directionsAtOnce {
		if ctx.Err() != nil {
			return nil
		}
		for k := range normals.Data {
			normals.Data[k] = float32(rng.NormFloat64())
		}
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, searched, normals, 0, projections)
		for d := range directionsAtOnce {
			for i := range sorted {
				// The lower half of an element is the row number. Sorting integers is several
				// times faster than sorting structs.
				sorted[i] = uint64(quantile.OrderedBits(projections.Data[i*projections.Stride+d]))<<32 | uint64(i)
			}
			slices.Sort(sorted)
			project := func(k int) float32 { return projections.Data[int(uint32(sorted[k]))*projections.Stride+d] }
			for w, isCovered := range covered {
				for i, p := range sorted {
					prefix[i+1] = prefix[i]
					if isCovered[order[uint32(p)]] {
						prefix[i+1]++
					}
				}
				if from, to, fraction := lowestRange(prefix, minRows, best[w].fraction); to > 0 {
					best[w] = candidate{fraction: fraction, low: project(from), high: project(to - 1), normal: column(normals, d)}
				}
			}
		}
	}
	slabs := make([]Slab, len(covered))
	for w, c := range best {
		if c.normal.N == 0 { // all rows of the first half are covered, so the slab is the whole space
			c.normal = column(rows.New(x.Cols, 1), 0)
		}
		for i := range heldOut.Rows {
			projection := blas32.Dot(blas32.Vector{N: x.Cols, Inc: 1, Data: rows.Row(heldOut, i)}, c.normal)
			if c.low <= projection && projection <= c.high {
				slabs[w].Rows++
				if covered[w][order[half+i]] {
					slabs[w].Covered++
				}
			}
		}
	}
	return slabs
}

// candidate is the slab with the lowest coverage so far.
type candidate struct {
	fraction  float64
	low, high float32
	normal    blas32.Vector
}

// lowestRange returns the range of at least minRows rows with the lowest covered fraction.
// If this fraction is not below both limit and 1, to is 0. prefix[i] is the number of
// covered rows among the first i.
func lowestRange(prefix []int, minRows int, limit float64) (from, to int, lowest float64) {
	lowest = min(limit, 1)
	for {
		// A range with a lower covered fraction has a negative sum of covered − lowest over
		// its rows. Repeatedly taking the range with the smallest sum leads to the lowest
		// fraction in a few steps (Dinkelbach, 1967).
		best, start, end, sum := 0, 0, 0, -1e-9
		excess := func(i int) float64 { return float64(prefix[i]) - lowest*float64(i) }
		for i := minRows; i < len(prefix); i++ {
			if excess(i-minRows) > excess(best) {
				best = i - minRows
			}
			if s := excess(i) - excess(best); s < sum {
				start, end, sum = best, i, s
			}
		}
		if end == 0 {
			return from, to, lowest
		}
		from, to, lowest = start, end, float64(prefix[end]-prefix[start])/float64(end-start)
	}
}

// column returns a copy of column j of m.
func column(m blas32.General, j int) blas32.Vector {
	v := blas32.Vector{N: m.Rows, Inc: 1, Data: make([]float32, m.Rows)}
	for i := range v.Data {
		v.Data[i] = m.Data[i*m.Stride+j]
	}
	return v
}
