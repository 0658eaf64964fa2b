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
	// directions is the number of random normals of slabs, as in the authors' code.
	directions = 1000
	// together is the number of directions that rows are projected on at a time.
	together = 50
	// Share is the least fraction of the rows in a slab.
	Share = .1
)

// Slab counts the rows in a slab and how many of them are covered.
type Slab struct{ Covered, Rows int }

// Worst finds, for each of several predictions of the rows x, a slab with low coverage and
// measures it on held-out rows. The slab contains at least a fraction Share of a random half
// of the rows, and its normal is the best of many random directions. The other half then gives
// an unbiased count: how many of its rows are in the slab, and how many of these are covered.
// Columns are standardised. It returns nil for fewer than 20 rows and if the context ends.
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
	chosen := rows.Select(x, order[:half])
	scaling := rows.NewScaling(chosen)
	chosen, measured := scaling.Apply(chosen), scaling.Apply(rows.Select(x, order[half:]))
	best := make([]candidate, len(covered))
	for i := range best {
		best[i].share = math.Inf(1)
	}
	least := int(math.Ceil(Share * float64(half)))
	on, across := rows.New(half, together), rows.New(x.Cols, together)
	places, prefix := make([]uint64, half), make([]int, half+1)
	for range directions / together {
		if ctx.Err() != nil {
			return nil
		}
		for k := range across.Data {
			across.Data[k] = float32(rng.NormFloat64())
		}
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, chosen, across, 0, on)
		for d := range together {
			for i := range places {
				// Store each projection with its row number in the lower half, because
				// integers sort several times faster than structs.
				places[i] = uint64(quantile.OrderedBits(on.Data[i*on.Stride+d]))<<32 | uint64(i)
			}
			slices.Sort(places)
			at := func(k int) float32 { return on.Data[int(uint32(places[k]))*on.Stride+d] }
			for w, is := range covered {
				for i, p := range places {
					prefix[i+1] = prefix[i]
					if is[order[uint32(p)]] {
						prefix[i+1]++
					}
				}
				if from, to, share := worst(prefix, least, best[w].share); to > 0 {
					best[w] = candidate{share: share, low: at(from), high: at(to - 1), across: column(across, d)}
				}
			}
		}
	}
	slabs := make([]Slab, len(covered))
	for w, c := range best {
		if c.across.N == 0 { // all rows of this half are covered
			c.across = column(rows.New(x.Cols, 1), 0)
		}
		for i := range measured.Rows {
			at := blas32.Dot(blas32.Vector{N: x.Cols, Inc: 1, Data: rows.Row(measured, i)}, c.across)
			if c.low <= at && at <= c.high {
				slabs[w].Rows++
				if covered[w][order[half+i]] {
					slabs[w].Covered++
				}
			}
		}
	}
	return slabs
}

// candidate is the worst slab so far.
type candidate struct {
	share     float64
	low, high float32
	across    blas32.Vector
}

// worst returns the range with the lowest covered fraction among those of at least least rows,
// if that fraction is below share; otherwise to is 0. prefix[i] counts the covered rows among
// the first i.
func worst(prefix []int, least int, share float64) (from, to int, lowest float64) {
	lowest = min(share, 1)
	for {
		// A range with a lower fraction has a negative sum of covered − lowest. The range with
		// the least sum leads to the range with the least fraction in a few steps (Dinkelbach,
		// 1967).
		at, start, end, sum := 0, 0, 0, -1e-9
		value := func(i int) float64 { return float64(prefix[i]) - lowest*float64(i) }
		for i := least; i < len(prefix); i++ {
			if value(i-least) > value(at) {
				at = i - least
			}
			if s := value(i) - value(at); s < sum {
				start, end, sum = at, i, s
			}
		}
		if end == 0 {
			return from, to, lowest
		}
		from, to, lowest = start, end, float64(prefix[end]-prefix[start])/float64(end-start)
	}
}

func column(m blas32.General, j int) blas32.Vector {
	v := blas32.Vector{N: m.Rows, Inc: 1, Data: make([]float32, m.Rows)}
	for i := range v.Data {
		v.Data[i] = m.Data[i*m.Stride+j]
	}
	return v
}
