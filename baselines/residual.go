package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var residualMethod = ood.Method{
	Name: "residual",
	Doc: "Norm of the part of the features that the k principal components of the training features do not explain. Use it if OOD inputs leave the space of the " +
		"training features; vim also uses the logits. Features are measured from an origin where logits are small. The origin is the point −W⁺b, where the " +
		"logits of the last layer are nearest 0. k below 1 is a fraction of the features, and k is less than their number.",
	Ref:    "Wang et al. 2022, arXiv:2203.10807, eq. 3",
	Needs:  ood.Needs{Features: true, Weights: true},
	Memory: squareMatrices(eigen.Squares),
	Params: []ood.Param{{Name: "k", Default: .5, Takes: "share,positive", Sweep: []any{.25, .5, .75, 512, 1000}}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		originMoments, err := momentsAboutOrigin(ctx, t)
		if err != nil {
			return nil, err
		}
		return &residual{originMoments.complement(p)}, nil
	},
	New: func() any { return &residual{} },
}

type residual struct{ residualSpace }

func (s *residual) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.norms(dst, b.Features)
	return nil
}

func (s *residual) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.normsGraph(b.Features), nil
}
