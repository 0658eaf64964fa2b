package evaluate

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/worstslab"
)

// mostSlabRows bounds the rows that the worst slab is looked for among.
const mostSlabRows = 10_000

// reservoir holds the features of rows drawn evenly from all that are added.
type reservoir struct {
	rng  *rand.Rand
	x    []float32
	cols int
	rows []int // their numbers
	seen int
}

func newReservoir(seed uint64) reservoir {
	return reservoir{rng: rand.New(rand.NewPCG(seed, 0xeba1))}
}

// add keeps the row or, once there are enough, puts it in the place of another with
// the probability that leaves each row of all alike.
func (r *reservoir) add(row []float32) {
	if len(r.rows) < mostSlabRows {
		r.x, r.rows, r.cols = append(r.x, row...), append(r.rows, r.seen), len(row)
	} else if at := r.rng.IntN(r.seen + 1); at < mostSlabRows {
		copy(r.x[at*r.cols:], row)
		r.rows[at] = r.seen
	}
	r.seen++
}

// worstSlabs are measured for each of several ways to cover all rows.
func (g *accumulator) worstSlabs(ctx context.Context, all []*Coverage, covered []coverings) {
	r := g.features
	kept := make([][]bool, len(covered))
	for k, c := range covered {
		for _, i := range r.rows {
			kept[k] = append(kept[k], c.covered[i])
		}
	}
	x := blas32.General{Rows: len(r.rows), Cols: r.cols, Stride: r.cols, Data: r.x}
	for k, s := range worstslab.Worst(ctx, x, kept, g.at[g.main].Options().Seed) {
		all[k].WorstSlab = rate(s.Covered, s.Rows)
	}
}
