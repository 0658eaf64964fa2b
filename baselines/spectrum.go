package baselines

import (
	"context"
	"iter"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// blocks are the rows of x, some at a time with the number of the first, until
// they or the context end.
func blocks(ctx context.Context, x blas32.General) iter.Seq2[int, blas32.General] {
	const atOnce = 1024
	return func(yield func(int, blas32.General) bool) {
		for first := 0; first < x.Rows && ctx.Err() == nil; first += atOnce {
			if !yield(first, ood.Batch{Features: x}.Slice(first, min(first+atOnce, x.Rows)).Features) {
				return
			}
		}
	}
}

type momentsKey struct{}

// moments are those of the training features.
func moments(ctx context.Context, t ood.Training) (*heads.Moments, error) {
	return ood.Cached(t.Batch, momentsKey{}, func() (*heads.Moments, error) {
		m := &heads.Moments{}
		for _, x := range blocks(ctx, t.Features) {
			if err := m.Add(x); err != nil {
				return nil, err
			}
		}
		return m, ctx.Err()
	})
}
