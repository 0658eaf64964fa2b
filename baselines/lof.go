package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var lofMethod = ood.Method{
	Name: "lof",
	Doc: "Local outlier factor: how much denser training rows are around a row's k nearest training rows than around the row itself. Use it if training rows " +
		"are dense in some places and sparse in others. It is the mean local reachability density of these neighbours, divided by the density of the row. It " +
		"is about 1 for in-distribution rows. k is less than the number of training rows.",
	Ref:   "Breunig et al. 2000, doi:10.1145/342009.335388; as scikit-learn's LocalOutlierFactor with novelty=True",
	Needs: ood.Needs{Features: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		n := float64(t.Len())
		return 16 * n * min(p.Float("k"), n)
	},
	Params: []ood.Param{{Name: "k", Default: 20, Takes: "count", Sweep: []any{10, 20, 50, 100}}},
	Fit:    fitLOF,
	New:    func() any { return &lof{} },
}

type lof struct {
	Train   blas32.General `state:"train[n,features]"`
	Reach   []float64      `state:"reach[n],least=0"`    // distance from each training row to its k-th nearest training row
	Density []float64      `state:"density[n],positive"` // local reachability density of each training row
	K       int            `state:"k,least=1"`
	index   *neighbours.Index
	maxK    int // largest k in the sweep
}

func fitLOF(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	n, maxK := t.Len(), 0
	if n < 2 {
		return nil, &rows.TooFewRowsError{What: "neighbours of training rows", Have: n, Need: 2}
	}
	for _, other := range memo.Grid(ctx) {
		maxK = max(maxK, min(other.Int("k"), n-1))
	}
	x, err := trainingIndex(ctx, t, false)
	if err != nil {
		return nil, err
	}
	type key struct{ maxK int }
	neighboursOf, err := memo.Cached(ctx, t.Batch, key{maxK}, func() ([][]neighbours.Neighbour, error) { return x.Nearest(ctx, x.Rows, maxK, true) })
	if err != nil {
		return nil, err
	}
	s := &lof{Train: x.Rows, Reach: make([]float64, n), Density: make([]float64, n), K: min(p.Int("k"), n-1), index: x, maxK: maxK}
	for i, rowNeighbours := range neighboursOf {
		s.Reach[i] = rowNeighbours[s.K-1].Distance
	}
	for i, rowNeighbours := range neighboursOf {
		s.Density[i] = s.densityOf(rowNeighbours[:s.K])
	}
	return s, nil
}

// densityOf returns the local reachability density of a row: the inverse of the mean
// reachability distance to its neighbours.
func (s *lof) densityOf(rowNeighbours []neighbours.Neighbour) float64 {
	var sum float64
	for _, n := range rowNeighbours {
		sum += max(n.Distance, s.Reach[n.Row])
	}
	// Like scikit-learn, add 1e-10 to avoid a division by 0 if more than k rows are equal.
	return 1 / (sum/float64(len(rowNeighbours)) + 1e-10)
}

func (s *lof) Restored() error {
	if s.K >= s.Train.Rows {
		return fmt.Errorf("k = %d exceeds the %d other training rows", s.K, s.Train.Rows-1)
	}
	s.index, s.maxK = neighbours.New(s.Train, false), s.K
	return nil
}

func (s *lof) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	nearest, err := memo.Cached(ctx, b, s.index, func() ([][]neighbours.Neighbour, error) {
		return s.index.Nearest(ctx, b.Features, s.maxK, false)
	})
	for i, rowNeighbours := range nearest {
		dst[i] = s.factor(rowNeighbours[:min(s.K, len(rowNeighbours))])
	}
	return err
}

func (s *lof) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	distances, at, err := s.index.NearestGraph(b.Features, s.K)
	if err != nil {
		return graph.Tensor{}, err
	}
	reached := distances.Max(at.Lookup(s.Reach)).Mean().Add(1e-10)
	return at.Lookup(s.Density).Mean().Mul(reached), nil
}

// factor returns the local outlier factor of a row with the given nearest neighbours.
func (s *lof) factor(rowNeighbours []neighbours.Neighbour) float64 {
	if len(rowNeighbours) == 0 {
		return math.NaN()
	}
	var sum float64
	for _, n := range rowNeighbours {
		sum += s.Density[n.Row]
	}
	return sum / float64(len(rowNeighbours)) / s.densityOf(rowNeighbours)
}
