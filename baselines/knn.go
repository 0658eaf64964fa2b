package baselines

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/neighbours"
	"github.com/attach-uncertainty/attach/ood"
)

// KNN scores with the distance to the k-th nearest training row, on the unit
// sphere.
var KNN = ood.Method{
	Name: "knn",
	Doc: "Euclidean distance to the k-th nearest of the training features, found by exhaustive search, with all features " +
		"scaled to unit norm. k below 1 is a share of the training rows, as the paper lets k grow with them, and k stops at all of them.",
	Ref:     "Sun et al. 2022, arXiv:2204.06507, eq. 3",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"k": .001},
	Grid:    []ood.Params{{"k": .001}, {"k": 1.}, {"k": 10.}, {"k": 50.}, {"k": 100.}, {"k": 200.}, {"k": 500.}, {"k": 1000.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitKNN(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitKNN,
	Restore: func(s heads.State) (ood.Scorer, error) {
		k, err := whole(s, "k", 1)
		if err != nil {
			return nil, err
		}
		train, err := s.General("train")
		if err != nil {
			return nil, err
		}
		if k > train.Rows {
			return nil, fmt.Errorf("the nearest %d of %d rows", k, train.Rows)
		}
		return knn{neighbours.New(train, true), k}, checkRows(train, "knn")
	},
}

type knn struct {
	*neighbours.Index // scaled to unit norm
	k                 int
}

func fitKNN(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	ks := make([]int, len(grid))
	for i, p := range grid {
		r := p.Reader()
		share := r.Positive("k", .001)
		if err := r.Err(); err != nil {
			return nil, err
		}
		k, err := count(share, t.Features.Rows)
		if err != nil {
			return nil, err
		}
		ks[i] = min(k, t.Features.Rows)
	}
	if err := checkRows(t.Features, "knn"); err != nil {
		return nil, err
	}
	n := neighbours.New(bank(t), true)
	scorers := make([]ood.Scorer, len(grid))
	for i, k := range ks {
		scorers[i] = knn{n, k}
	}
	return scorers, ctx.Err()
}

// unitRows fills dst with the rows of x scaled to unit norm; rows of zeros
// stay zero.
func unitRows(dst, x blas32.General) {
	for i := range x.Rows {
		from, to := row(x, i), row(dst, i)
		scale := neighbours.InverseNorm(from)
		for j, v := range from {
			to[j] = float32(scale * float64(v))
		}
	}
}

// State implements heads.Stater.
func (s knn) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.k)},
		Arrays: map[string]heads.Array{"train": stored(s.Rows)},
	}
}

// Score implements ood.Scorer.
func (s knn) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.Rows.Cols, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	if err := s.score(ctx, [][]float64{dst}, []int{s.k}, b); err != nil {
		return nil, err
	}
	return dst, nil
}

// ScoreGrid implements ood.GridScorer: all k come from the same distances.
func (s knn) ScoreGrid(ctx context.Context, grid []ood.Scorer, b ood.Batch) ([][]float64, error) {
	if err := checkWidth(b.Features, s.Rows.Cols, "features"); err != nil {
		return nil, err
	}
	dst, ks := make([][]float64, len(grid)), make([]int, len(grid))
	for i, other := range grid {
		dst[i], ks[i] = make([]float64, b.Features.Rows), other.(knn).k
	}
	if err := s.score(ctx, dst, ks, b); err != nil {
		return nil, err
	}
	return dst, nil
}

func (s knn) score(ctx context.Context, dst [][]float64, ks []int, b ood.Batch) error {
	ranks := make([]int, len(ks))
	for i, k := range ks {
		ranks[i] = k - 1
	}
	return s.Distances(ctx, b.Features, ranks, func(i int, distances []float64) {
		for j, d := range distances {
			dst[j][i] = d
		}
	})
}
