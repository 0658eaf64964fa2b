package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var distanceMethod = ood.Method{
	Name: "distance",
	Doc: "Euclidean distance to the nearest training row, or a percentile of the distances to all of them. Use it for trees and for regressors that read a table, where it is the " +
		"default, and for other rows of few columns. Between two distances a percentile is interpolated linearly.",
	Ref:    "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:  ood.Needs{Features: true},
	Params: []ood.Param{{Name: "percentile", Default: 0, Takes: "least=0,most=100", Sweep: []any{0, 1, 10, 50}}},
	Fit:    fitDistance,
	New:    func() any { return &distance{} },
}

type distance struct {
	rankDistances
	Percentile float64 `state:"percentile,least=0"`
}

func fitDistance(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	x, err := trainingIndex(ctx, t, false)
	if err != nil {
		return nil, err
	}
	s := &distance{newRankDistances(x), p.Float("percentile")}
	for _, p := range memo.Grid(ctx) {
		low, high, _ := ranksOf(p.Float("percentile"), t.Len())
		s.ranks = append(s.ranks, low, high)
	}
	return s, nil
}

// ranksOf returns the two ranks among n sorted distances that a percentile lies between,
// and its position between them as a fraction. It interpolates as numpy.percentile does by
// default.
func ranksOf(percentile float64, n int) (low, high int, fraction float64) {
	at, fraction := math.Modf(percentile / 100 * float64(n-1))
	return int(at), int(at + math.Ceil(fraction)), fraction
}

func (s *distance) Restored() error {
	if s.Percentile > 100 {
		return fmt.Errorf("parameter %q must be at most 100, not %v", "percentile", s.Percentile)
	}
	low, high, _ := ranksOf(s.Percentile, s.Train.Rows)
	s.rankDistances = newRankDistances(neighbours.New(s.Train, false), low, high)
	return nil
}

func (s *distance) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	distances, err := s.distances(ctx, b)
	if err != nil {
		return err
	}
	low, high, fraction := ranksOf(s.Percentile, s.Train.Rows)
	for i, d := range distances[low] {
		dst[i] = d + fraction*(distances[high][i]-d)
	}
	return nil
}

func (s *distance) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	low, high, fraction := ranksOf(s.Percentile, s.Train.Rows)
	if fraction == 0 {
		return s.index.DistancesGraph(b.Features, low)
	}
	distances, err := s.index.DistancesGraph(b.Features, low, high)
	if err != nil {
		return distances, err
	}
	below := distances.Columns(0, 1)
	return distances.Columns(1, 2).Sub(below).Mul(fraction).Add(below), nil
}
