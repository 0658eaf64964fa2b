package evaluate

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/worstslab"
)

// mostSlabRows is the largest number of rows in which the worst slab is searched.
const mostSlabRows = 10_000

// reservoir holds a uniform sample of the added rows (reservoir sampling).
type reservoir struct {
	rng  *rand.Rand
	x    []float32
	cols int
	rows []int // numbers of the sampled rows
	seen int
}

func newReservoir(seed uint64) reservoir {
	return reservoir{rng: rand.New(rand.NewPCG(seed, 0xeba1))}
}

// add adds the row to the sample. If the sample is full, the row replaces a random one with
// the probability that keeps the sample uniform.
func (r *reservoir) add(row []float32) {
	if len(r.rows) < mostSlabRows {
		r.x, r.rows, r.cols = append(r.x, row...), append(r.rows, r.seen), len(row)
	} else if at := r.rng.IntN(r.seen + 1); at < mostSlabRows {
		copy(r.x[at*r.cols:], row)
		r.rows[at] = r.seen
	}
	r.seen++
}

// worstSlabs measures the worst slab of several coverages of the same rows.
func (g *accumulator) worstSlabs(ctx context.Context, all []*Coverage, covered []coverings) {
	r := g.features
	sampled := make([][]bool, len(covered))
	for k, c := range covered {
		for _, i := range r.rows {
			sampled[k] = append(sampled[k], c.covered[i])
		}
	}
	x := blas32.General{Rows: len(r.rows), Cols: r.cols, Stride: r.cols, Data: r.x}
	for k, s := range worstslab.Worst(ctx, x, sampled, g.at[g.main].Options().Seed) {
		all[k].WorstSlab = rate(s.Covered, s.Rows)
	}
}
