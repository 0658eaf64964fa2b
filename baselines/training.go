package baselines

import (
	"context"
	"iter"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
	"github.com/attach-uncertainty/attach/ood"
)

// row returns row i of m.
func row(m blas32.General, i int) []float32 {
	return rows.Row(m, i)
}

// clone returns a contiguous copy of m.
func clone(m blas32.General) blas32.General {
	return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: rows.ArrayOf(m).Data.([]float32)}
}

// featureMeans returns the means of the training features. All methods that are fitted to
// the rows of t share the result.
func featureMeans(ctx context.Context, t ood.Training) []float64 {
	type key struct{}
	mean, _ := memo.Cached(ctx, t.Batch, key{}, func() ([]float64, error) { return moments.Mean(t.Features, false), nil })
	return mean
}

// blocks yields blocks of rows of x, each with the index of its first row. It stops early
// if the context is cancelled.
func blocks(ctx context.Context, x blas32.General) iter.Seq2[int, blas32.General] {
	const atOnce = 1024
	return func(yield func(int, blas32.General) bool) {
		for first := 0; first < x.Rows && ctx.Err() == nil; first += atOnce {
			if !yield(first, rows.Slice(x, first, min(first+atOnce, x.Rows))) {
				return
			}
		}
	}
}

// storableFeatures returns the training features for a scorer that stores them. It returns
// a copy unless t.MayRetain is set.
func storableFeatures(t ood.Training) blas32.General {
	if t.MayRetain {
		return t.Features
	}
	return clone(t.Features)
}

// trainingIndex returns an index for the search of nearest training rows. If unit is set,
// rows are scaled to unit norm.
func trainingIndex(ctx context.Context, t ood.Training, unit bool) (*neighbours.Index, error) {
	type key struct{ unit bool }
	return memo.Cached(ctx, t.Batch, key{unit}, func() (*neighbours.Index, error) { return neighbours.New(storableFeatures(t), unit), nil })
}

// rankDistances computes the distances from a row to training rows of given ranks.
type rankDistances struct {
	Train blas32.General `state:"train[n,features]"`
	index *neighbours.Index
	ranks []int // all ranks of a sweep; rank 0 is the nearest row
}

func newRankDistances(x *neighbours.Index, ranks ...int) rankDistances {
	return rankDistances{x.Rows, x, ranks}
}

// PropagatesNaN implements graph.NaNPropagator.
func (s *rankDistances) PropagatesNaN() bool { return true }

// distances returns, for each rank, the distance of each row of b to the training row of
// this rank.
func (s *rankDistances) distances(ctx context.Context, b ood.Batch) (map[int][]float64, error) {
	return memo.Cached(ctx, b, s.index, func() (map[int][]float64, error) { return s.index.Distances(ctx, b.Features, s.ranks) })
}
