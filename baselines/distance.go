package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/neighbours"
	"github.com/attach-uncertainty/attach/ood"
)

// Distance scores with how far a row lies from the training rows.
var Distance = ood.Method{
	Name: "distance",
	Doc: "Percentile of the Euclidean distances to the training features. " +
		"percentile=0 is the distance to the nearest of them; between two of them it is interpolated linearly.",
	Ref:     "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"percentile": 0.},
	Grid:    []ood.Params{{"percentile": 0.}, {"percentile": 1.}, {"percentile": 10.}, {"percentile": 50.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitDistance(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitDistance,
	Restore: func(s heads.State) (ood.Scorer, error) {
		percentile, err := s.Number("percentile")
		if err != nil {
			return nil, err
		}
		train, err := s.General("train")
		if err != nil {
			return nil, err
		}
		if err := checkRows(train, "distance"); err != nil {
			return nil, err
		}
		return newDistance(neighbours.New(train, false), percentile)
	},
}

type distance struct {
	*neighbours.Index
	percentile float64
}

func fitDistance(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	if err := checkRows(t.Features, "distance"); err != nil {
		return nil, err
	}
	n := neighbours.New(bank(t), false)
	scorers := make([]ood.Scorer, len(grid))
	for i, p := range grid {
		r := p.Reader()
		percentile := r.Float("percentile", 0)
		if err := r.Err(); err != nil {
			return nil, err
		}
		var err error
		if scorers[i], err = newDistance(n, percentile); err != nil {
			return nil, err
		}
	}
	return scorers, ctx.Err()
}

func newDistance(n *neighbours.Index, percentile float64) (ood.Scorer, error) {
	if !(percentile >= 0 && percentile <= 100) {
		return nil, fmt.Errorf("parameter %q must be in [0,100], not %v", "percentile", percentile)
	}
	return distance{n, percentile}, nil
}

// State implements heads.Stater.
func (d distance) State() heads.State {
	return heads.State{
		Params: map[string]any{"percentile": d.percentile},
		Arrays: map[string]heads.Array{"train": stored(d.Rows)},
	}
}

// Score implements ood.Scorer.
func (d distance) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, d.Rows.Cols, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	if err := d.score(ctx, [][]float64{dst}, []float64{d.percentile}, b.Features); err != nil {
		return nil, err
	}
	return dst, nil
}

// ScoreGrid implements ood.GridScorer: all percentiles come from the same
// distances.
func (d distance) ScoreGrid(ctx context.Context, grid []ood.Scorer, b ood.Batch) ([][]float64, error) {
	if err := checkWidth(b.Features, d.Rows.Cols, "features"); err != nil {
		return nil, err
	}
	dst := make([][]float64, len(grid))
	percentiles := make([]float64, len(grid))
	for i, s := range grid {
		dst[i] = make([]float64, b.Features.Rows)
		percentiles[i] = s.(distance).percentile
	}
	if err := d.score(ctx, dst, percentiles, b.Features); err != nil {
		return nil, err
	}
	return dst, nil
}

// score writes one percentile of the distances of every row of x to each dst.
func (d distance) score(ctx context.Context, dst [][]float64, percentiles []float64, x blas32.General) error {
	ranks := make([]int, 0, 2*len(percentiles))
	shares := make([]float64, len(percentiles))
	for i, p := range percentiles {
		// numpy.percentile's default, linear: rank p/100·(n−1), interpolated.
		low, share := math.Modf(p / 100 * float64(d.Rows.Rows-1))
		ranks = append(ranks, int(low), int(low+math.Ceil(share)))
		shares[i] = share
	}
	return d.Distances(ctx, x, ranks, func(i int, near []float64) {
		for j, share := range shares {
			dst[j][i] = near[2*j] + share*(near[2*j+1]-near[2*j])
		}
	})
}
