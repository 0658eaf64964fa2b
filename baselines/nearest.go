package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/neighbours"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// bank is the training features for a scorer to keep, which outlives them: a
// copy, unless they are said to stay.
func bank(t ood.Training) blas32.General {
	if t.Stays {
		return t.Features
	}
	return blas32.General{
		Rows: t.Features.Rows, Cols: t.Features.Cols, Stride: max(t.Features.Cols, 1),
		Data: rows.ArrayOf(t.Features).Data.([]float32),
	}
}

type indexKey struct{ unit bool }

// index is the training features to search among, scaled to unit norm or not.
func index(t ood.Training, unit bool) (*neighbours.Index, error) {
	return ood.Cached(t.Batch, indexKey{unit}, func() (*neighbours.Index, error) { return neighbours.New(bank(t), unit), nil })
}

// ranked finds how far training rows are.
type ranked struct {
	Train blas32.General `state:"train[n,features]"`
	index *neighbours.Index
	ranks []int // from 0, the nearest: all that a sweep asks for
}

func newRanked(x *neighbours.Index, ranks ...int) ranked { return ranked{x.Rows, x, ranks} }

// distances are those of the rows of a block to the training row of each rank.
func (s *ranked) distances(ctx context.Context, b ood.Batch) (map[int][]float64, error) {
	return ood.Cached(b, s.index, func() (map[int][]float64, error) {
		of := map[int][]float64{}
		for _, rank := range s.ranks {
			of[rank] = make([]float64, b.Len())
		}
		err := s.index.Distances(ctx, b.Features, s.ranks, func(i int, distances []float64) {
			for k, rank := range s.ranks {
				of[rank][i] = distances[k]
			}
		})
		return of, err
	})
}
