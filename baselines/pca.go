package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// PCA scores with the projection on the principal components of the features.
var PCA = ood.Method{
	Name: "pca",
	Doc: "Projection of the centred features on the k principal components of largest (where=top) or " +
		"smallest (where=bottom) variance. square=true scores with its squared norm; square=false with its " +
		"mean, signs and all, as the paper's experiments do: the largest entry of every component is taken " +
		"as positive. k stops at the number of features, and k below 1 is a share of it.",
	Ref:     "Tagasovska & Lopez-Paz 2019, table 2; squared norm: Hawkins 1974",
	Needs:   ood.NeedFeatures,
	Memory:  squares(eigenSquares),
	Default: ood.Params{"k": .5, "where": "bottom", "square": true},
	Grid:    pcaGrid(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitPCA(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitPCA,
	Restore: func(s heads.State) (ood.Scorer, error) {
		k, err := whole(s, "k", 1)
		if err != nil {
			return nil, err
		}
		square, err := s.Flag("square")
		if err != nil {
			return nil, err
		}
		mean, err := s.Float64s("mean")
		if err != nil {
			return nil, err
		}
		components, err := matrix64(s, "components", len(mean), k)
		if err != nil {
			return nil, err
		}
		return pca{mean, components, square}, nil
	},
}

func pcaGrid() []ood.Params {
	var grid []ood.Params
	for _, square := range []bool{false, true} {
		for _, where := range []string{"top", "bottom"} {
			for _, k := range []float64{1, 10, 100} {
				grid = append(grid, ood.Params{"k": k, "where": where, "square": square})
			}
		}
	}
	return grid
}

type pca struct {
	mean       []float64      // h
	components blas64.General // h×k
	square     bool
}

func fitPCA(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	scorers := make([]ood.Scorer, len(grid))
	h := t.Features.Cols
	ks, tops := make([]int, len(grid)), make([]bool, len(grid))
	for i, p := range grid {
		r := p.Reader()
		k, err := count(r.Positive("k", .5), h)
		if err != nil {
			return nil, err
		}
		ks[i] = min(k, h)
		tops[i] = r.OneOf("where", "bottom", "top") == "top"
		scorers[i] = pca{square: r.Bool("square", true)}
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	m, err := moments(ctx, t.Features, "principal components")
	if err != nil {
		return nil, err
	}
	mean := m.Mean()
	s, err := newSpectrum(m.Covariance())
	if err != nil {
		return nil, err
	}
	for i := range scorers {
		k, first := ks[i], 0
		if tops[i] {
			first = h - k
		}
		c := blas64.General{Rows: h, Cols: k, Stride: k, Data: make([]float64, 0, h*k)}
		for r := range h {
			c.Data = append(c.Data, s.vectors.RawRowView(r)[first:first+k]...)
		}
		scorers[i] = pca{mean, c, scorers[i].(pca).square}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s pca) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.mean), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	err := project(ctx, b.Features, s.mean, s.components, func(i int, y []float64) {
		if s.square {
			dst[i] = squaredNorm(y)
			return
		}
		dst[i] = 0
		for _, v := range y {
			dst[i] += v / float64(len(y))
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s pca) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.components.Cols), "square": s.square},
		Arrays: map[string]heads.Array{
			"mean":       heads.Vector(s.mean),
			"components": matrixArray(s.components),
		},
	}
}
