package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var pcaMethod = ood.Method{
	Name: "pca",
	Doc: "Projection of the centred features on the k principal components of largest (where=top) or smallest (where=bottom) variance. Use it as a simple " +
		"baseline that stores one matrix. square=true uses its squared norm. square=false uses its signed mean, as in the paper's experiments; the largest " +
		"entry of each component is taken as positive. k below 1 is a fraction of the features, and k is at most their number.",
	Ref:    "Tagasovska & Lopez-Paz 2019, table 2; squared norm: Hawkins 1974",
	Needs:  ood.Needs{Features: true},
	Memory: squareMatrices(eigen.Squares),
	Params: []ood.Param{
		{Name: "square", Default: true, Sweep: []any{false, true}},
		{Name: "where", Default: "bottom", Takes: "of=bottom|top", Sweep: []any{"top", "bottom"}},
		{Name: "k", Default: .5, Takes: "share,positive", Sweep: []any{1, 10, 100}},
	},
	Fit: fitPCA,
	New: func() any { return &pca{} },
}

type pca struct {
	Mean       []float64      `state:"mean[features]"`
	Components blas64.General `state:"components[features,k]"`
	Square     bool           `state:"square"`
}

func fitPCA(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	m, s, err := memo.Spectrum(ctx, t, false, true)
	if err != nil {
		return nil, err
	}
	h := t.Features.Cols
	k, first := min(p.Count("k", h), h), 0
	if p["where"].(string) == "top" {
		first = h - k
	}
	return &pca{m.Mean(), s.Components(first, k), p["square"].(bool)}, nil
}

func (s *pca) Score(_ context.Context, dst []float64, b ood.Batch) error {
	y := dense.Project(b.Features, s.Mean, s.Components)
	for i := range dst {
		if s.Square {
			dst[i] = dense.SquaredNorm(dense.Row(y, i))
		} else {
			dst[i] = floats.Sum(dense.Row(y, i)) / float64(y.Cols)
		}
	}
	return nil
}

func (s *pca) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	y := b.Features.Double().Sub(s.Mean).MatMul(s.Components)
	if s.Square {
		return y.SumSquares(), nil
	}
	return y.Mean(), nil
}
