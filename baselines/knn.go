package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var knnMethod = ood.Method{
	Name: "knn",
	Doc: "Euclidean distance to the k-th nearest training row, with all features scaled to unit norm. Use it if a flag must be easy to explain; the file " +
		"contains all training rows. The search is exhaustive. k below 1 is a fraction of the training rows, because the paper lets k grow with their number. " +
		"k is at most the number of training rows.",
	Ref:    "Sun et al. 2022, arXiv:2204.06507, eq. 3",
	Needs:  ood.Needs{Features: true},
	Params: []ood.Param{{Name: "k", Default: .001, Takes: "share,positive", Sweep: []any{.001, 1, 10, 50, 100, 200, 500, 1000}}},
	Fit:    fitKNN,
	New:    func() any { return &knn{} },
}

type knn struct {
	rankDistances     // distances to training rows of unit norm
	K             int `state:"k,least=1"`
}

func fitKNN(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	x, err := trainingIndex(ctx, t, true)
	if err != nil {
		return nil, err
	}
	k := func(p ood.Params) int { return min(p.Count("k", t.Len()), t.Len()) }
	s := &knn{newRankDistances(x), k(p)}
	for _, p := range memo.Grid(ctx) {
		s.ranks = append(s.ranks, k(p)-1)
	}
	return s, nil
}

func (s *knn) Restored() error {
	if s.K > s.Train.Rows {
		return fmt.Errorf("k = %d exceeds the %d training rows", s.K, s.Train.Rows)
	}
	s.rankDistances = newRankDistances(neighbours.New(s.Train, true), s.K-1)
	return nil
}

func (s *knn) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	distances, err := s.distances(ctx, b)
	copy(dst, distances[s.K-1])
	return err
}

func (s *knn) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.index.DistancesGraph(b.Features, s.K-1)
}
