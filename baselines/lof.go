package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// LOF scores with how much sparser a row's surroundings are than those of the
// training rows around it.
var LOF = ood.Method{
	Name: "lof",
	Doc: "Local outlier factor: the local reachability density of the k nearest training rows, on average, over that of the " +
		"row itself. About 1 in-domain. k stops short of the number of training rows.",
	Ref:     "Breunig et al. 2000, doi:10.1145/342009.335388; as scikit-learn's LocalOutlierFactor with novelty=True",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"k": 20.},
	Grid:    []ood.Params{{"k": 10.}, {"k": 20.}, {"k": 50.}, {"k": 100.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		k := r.Count("k", 20)
		if err := r.Err(); err != nil {
			return nil, err
		}
		return fitLOF(ctx, t, k)
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		k, err := whole(st, "k", 1)
		if err != nil {
			return nil, err
		}
		s := lof{k: k}
		train, err := st.General("train")
		if err != nil {
			return nil, err
		}
		if s.neighbours, err = newNeighbours(train); err != nil {
			return nil, err
		}
		if s.reach, err = st.Float64s("reach"); err != nil {
			return nil, err
		}
		if s.density, err = st.Float64s("density"); err != nil {
			return nil, err
		}
		if len(s.reach) != train.Rows || len(s.density) != train.Rows || k >= train.Rows {
			return nil, fmt.Errorf("%d distances and %d densities of the nearest %d of %d rows", len(s.reach), len(s.density), k, train.Rows)
		}
		return s, nil
	},
}

type lof struct {
	*neighbours
	k       int
	reach   []float64 // distance from each training row to its k-th nearest
	density []float64 // local reachability density of each
}

func fitLOF(ctx context.Context, t ood.Training, k int) (ood.Scorer, error) {
	if err := checkRows(t.Features, "lof"); err != nil {
		return nil, err
	}
	n := t.Features.Rows
	if n < 2 {
		return nil, &heads.TooFewRowsError{What: "neighbours of training rows", Have: n, Need: 2}
	}
	// A copy, since the scorer outlives the caller's rows.
	train := blas32.General{Rows: n, Cols: t.Features.Cols, Stride: t.Features.Cols}
	train.Data = heads.ArrayOf(t.Features).Data.([]float32)
	s := lof{k: min(k, n-1), reach: make([]float64, n), density: make([]float64, n)}
	var err error
	if s.neighbours, err = newNeighbours(train); err != nil {
		return nil, err
	}
	around := make([]neighbour, n*s.k)
	err = s.nearest(ctx, train, s.k, true, func(i int, near []neighbour) {
		copy(around[i*s.k:], near)
		s.reach[i] = near[len(near)-1].distance
	})
	if err != nil {
		return nil, err
	}
	for i := range n {
		s.density[i] = s.densityOf(around[i*s.k : (i+1)*s.k])
	}
	return s, ctx.Err()
}

// densityOf is the inverse of the mean reachability distance to neighbours.
func (s lof) densityOf(near []neighbour) float64 {
	var sum float64
	for _, n := range near {
		sum += max(n.distance, s.reach[n.row])
	}
	// scikit-learn's guard against more than k rows that are equal.
	return 1 / (sum/float64(len(near)) + 1e-10)
}

// Score implements ood.Scorer.
func (s lof) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.train.Cols, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	err := s.nearest(ctx, b.Features, s.k, false, func(i int, near []neighbour) {
		if len(near) == 0 {
			dst[i] = math.NaN()
			return
		}
		var sum float64
		for _, n := range near {
			sum += s.density[n.row]
		}
		dst[i] = sum / float64(len(near)) / s.densityOf(near)
	})
	if err != nil {
		return nil, err
	}
	return dst, ctx.Err()
}

// State implements heads.Stater.
func (s lof) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.k)},
		Arrays: map[string]heads.Array{
			"train": heads.ArrayOf(s.train), "reach": heads.Vector(s.reach), "density": heads.Vector(s.density),
		},
	}
}
