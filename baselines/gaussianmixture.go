package baselines

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/kmeans"
	"github.com/attach-uncertainty/attach/internal/numeric/mixture"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var gaussianMixtureMethod = ood.Method{
	Name: "gaussian-mixture",
	Doc: "Minus the log density of the features under a mixture of k Gaussians with full or diagonal covariances. Use it if the training rows form several " +
		"clusters, or for tables with many fit rows, where it is the default for trees and regressors. Expectation maximisation starts from k-means clusters, and stops when the mean " +
		"log density changes by less than 0.001, or after 100 steps. lambda is added to every variance. k is at most the number of distinct training rows.",
	Ref:   "Dempster, Laird & Rubin 1977; as scikit-learn's GaussianMixture",
	Needs: ood.Needs{Features: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		if p["covariance"].(string) == "diag" {
			return 0
		}
		// A fit needs memory for the mixture before and after a step of expectation
		// maximisation.
		return (2*min(p.Float("k"), float64(t.Len())) + 4) * squareBytes(t.Features.Cols)
	},
	Params: []ood.Param{
		{Name: "covariance", Default: "full", Takes: "of=full|diag", Sweep: []any{"full", "diag"}},
		{Name: "k", Default: 10, Takes: "count", Sweep: []any{1, 3, 10}}, {Name: "lambda", Default: 1e-6, Takes: "positive"},
	},
	Fit: fitGaussianMixture,
	New: func() any { return &gaussianMixture{} },
}

type gaussianMixture struct{ mixture.Gaussians }

func fitGaussianMixture(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	type key struct {
		k    int
		seed uint64
	}
	k := min(p.Int("k"), t.Len())
	clusters, err := memo.Cached(ctx, t.Batch, key{k, t.Seed}, func() ([]int, error) {
		return kmeans.Cluster(ctx, t.Features, k, rand.New(rand.NewPCG(t.Seed, 0)))
	})
	if err != nil {
		return nil, err
	}
	m, err := mixture.Fit(ctx, t.Features, clusters, p["covariance"].(string) == "full", p.Float("lambda"), t.Progress)
	if err != nil {
		return nil, err
	}
	return &gaussianMixture{*m}, nil
}

func (s *gaussianMixture) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.LogDensities(dst, b.Features)
	floats.Scale(-1, dst)
	return nil
}

func (s *gaussianMixture) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	if size := 8 * len(s.Precisions.Data); size > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its covariances are %d MB, and a graph holds %d MB at most: fit it with covariance=diag or a smaller k", size>>20, graph.MostBank>>20)
	}
	return s.LogDensitiesGraph(b.Features).Neg(), nil
}
