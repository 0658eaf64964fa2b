package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/neighbours"
	"github.com/attach-uncertainty/attach/ood"
)

// LOF scores with how much sparser a row's surroundings are than those of the
// training rows around it.
var LOF = ood.Method{
	Name: "lof",
	Doc: "Local outlier factor: the local reachability density of the k nearest training rows, on average, over that of the " +
		"row itself. About 1 in-domain. k stops short of the number of training rows.",
	Ref:   "Breunig et al. 2000, doi:10.1145/342009.335388; as scikit-learn's LocalOutlierFactor with novelty=True",
	Needs: ood.NeedFeatures,
	Memory: func(t ood.Training, p ood.Params) float64 {
		n := float64(t.Len())
		return 16 * n * min(p.Reader().Float("k", 20), n)
	},
	Default: ood.Params{"k": 20.},
	Grid:    []ood.Params{{"k": 10.}, {"k": 20.}, {"k": 50.}, {"k": 100.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitLOF(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitLOF,
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
		if err := checkRows(train, "lof"); err != nil {
			return nil, err
		}
		s.Index = neighbours.New(train, false)
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
	*neighbours.Index
	k       int
	reach   []float64 // distance from each training row to its k-th nearest
	density []float64 // local reachability density of each
}

func fitLOF(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	if err := checkRows(t.Features, "lof"); err != nil {
		return nil, err
	}
	n := t.Features.Rows
	if n < 2 {
		return nil, &heads.TooFewRowsError{What: "neighbours of training rows", Have: n, Need: 2}
	}
	most := 1
	scorers := make([]ood.Scorer, len(grid))
	fitted := make([]lof, len(grid))
	for i, p := range grid {
		r := p.Reader()
		k := min(r.Count("k", 20), n-1)
		if err := r.Err(); err != nil {
			return nil, err
		}
		fitted[i] = lof{k: k, reach: make([]float64, n), density: make([]float64, n)}
		most = max(most, k)
	}
	all := neighbours.New(bank(t), false)
	around := make([]neighbours.Neighbour, n*most)
	err := all.Nearest(ctx, all.Rows, most, true, func(i int, near []neighbours.Neighbour) {
		copy(around[i*most:], near)
		for _, s := range fitted {
			s.reach[i] = near[s.k-1].Distance
		}
	})
	if err != nil {
		return nil, err
	}
	for k, s := range fitted {
		s.Index = all
		for i := range n {
			s.density[i] = s.densityOf(around[i*most : i*most+s.k])
		}
		scorers[k] = s
	}
	return scorers, ctx.Err()
}

// densityOf is the inverse of the mean reachability distance to neighbours.
func (s lof) densityOf(near []neighbours.Neighbour) float64 {
	var sum float64
	for _, n := range near {
		sum += max(n.Distance, s.reach[n.Row])
	}
	// scikit-learn's guard against more than k rows that are equal.
	return 1 / (sum/float64(len(near)) + 1e-10)
}

// Score implements ood.Scorer.
func (s lof) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.Rows.Cols, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	return dst, s.score(ctx, [][]float64{dst}, []lof{s}, b)
}

// ScoreGrid implements ood.GridScorer: all k come from the same neighbours.
func (s lof) ScoreGrid(ctx context.Context, grid []ood.Scorer, b ood.Batch) ([][]float64, error) {
	if err := checkWidth(b.Features, s.Rows.Cols, "features"); err != nil {
		return nil, err
	}
	dst, of := make([][]float64, len(grid)), make([]lof, len(grid))
	for i, other := range grid {
		dst[i], of[i] = make([]float64, b.Features.Rows), other.(lof)
	}
	return dst, s.score(ctx, dst, of, b)
}

func (s lof) score(ctx context.Context, dst [][]float64, grid []lof, b ood.Batch) error {
	most := 1
	for _, g := range grid {
		most = max(most, g.k)
	}
	return s.Nearest(ctx, b.Features, most, false, func(i int, near []neighbours.Neighbour) {
		for j, g := range grid {
			dst[j][i] = g.factor(near[:min(g.k, len(near))])
		}
	})
}

// factor is the local outlier factor of a row with these neighbours.
func (s lof) factor(near []neighbours.Neighbour) float64 {
	if len(near) == 0 {
		return math.NaN()
	}
	var sum float64
	for _, n := range near {
		sum += s.density[n.Row]
	}
	return sum / float64(len(near)) / s.densityOf(near)
}

// State implements heads.Stater.
func (s lof) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.k)},
		Arrays: map[string]heads.Array{
			"train": stored(s.Rows), "reach": heads.Vector(s.reach), "density": heads.Vector(s.density),
		},
	}
}
