package evaluate

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/worstslab"
)

// maxSlabRows is the largest number of rows that the search for the worst slab uses.
const maxSlabRows = 10_000

// reservoir holds a uniform random sample of the rows that were added.
type reservoir struct {
	rng   *rand.Rand
	x     []float32
	cols  int
	rows  []int // numbers of the sampled rows
	added int   // number of rows added
}

func newReservoir(seed uint64) reservoir {
	return reservoir{rng: rand.New(rand.NewPCG(seed, 0xeba1))}
}

// add adds the row to the sample. If the sample is full, the row replaces a random one with a
// probability that keeps the sample uniform (reservoir sampling).
func (r *reservoir) add(row []float32) {
	if len(r.rows) < maxSlabRows {
		r.x, r.rows, r.cols = append(r.x, row...), append(r.rows, r.added), len(row)
	} else if replaced := r.rng.IntN(r.added + 1); replaced < maxSlabRows {
		copy(r.x[replaced*r.cols:], row)
		r.rows[replaced] = r.added
	}
	r.added++
}

// worstSlabs sets the WorstSlab of each coverage. All coverages are about the same rows, for
// example at several levels.
func (g *accumulator) worstSlabs(ctx context.Context, coverages []*Coverage, covered []outcomes) {
	r := g.features
	sampled := make([][]bool, len(covered))
	for k, c := range covered {
		for _, i := range r.rows {
			sampled[k] = append(sampled[k], c.covered[i])
		}
	}
	x := blas32.General{Rows: len(r.rows), Cols: r.cols, Stride: r.cols, Data: r.x}
	for k, s := range worstslab.Worst(ctx, x, sampled, g.predictors[g.mainLevel].Options().Seed) {
		coverages[k].WorstSlab = rate(s.Covered, s.Rows)
	}
}
