package baselines

import (
	"context"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var vimMethod = ood.Method{
	Name: "vim",
	Doc: "Virtual logit: α times the score of residual, minus the energy log Σ exp(logits). Use it for a classifier if one fast method should respond to " +
		"features and to logits. α is the mean of the largest logit divided by the mean of that norm, on the training rows. k below 1 is a fraction of the " +
		"features, and k is less than their number.",
	Ref:    "Wang et al. 2022, arXiv:2203.10807, eqs. 5 and 8",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Memory: squareMatrices(eigen.Squares),
	Params: []ood.Param{{Name: "k", Default: .5, Takes: "share,positive", Sweep: []any{.25, .5, .75, 256, 1000}}},
	Fit:    fitViM,
	New:    func() any { return &vim{} },
}

type vim struct {
	residualSpace
	Alpha float64 `state:"alpha,positive"`
}

func fitViM(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	originMoments, err := momentsAboutOrigin(ctx, t)
	if err != nil {
		return nil, err
	}
	s := &vim{residualSpace: originMoments.complement(p)}
	var largest float64
	for i := range t.Len() {
		largest += float64(slices.Max(row(t.Logits, i))) / float64(t.Len())
	}
	if largest <= 0 {
		return nil, fmt.Errorf("the mean of the largest logit is %v, and must be positive to scale the residual: are the logits log-probabilities?", largest)
	}
	meanResidual := s.meanNorm(ctx, t.Features)
	if ctx.Err() == nil && !(meanResidual > float64(s.Basis.Rows)/(1<<24)*originMoments.meanDistance) {
		return nil, fmt.Errorf("parameter %q: %v principal components explain all of the training features; choose fewer", "k", s.Basis.Rows-s.Basis.Cols)
	}
	s.Alpha = largest / meanResidual
	return s, ctx.Err()
}

func (s *vim) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.norms(dst, b.Features)
	for i := range dst {
		dst[i] = s.Alpha*dst[i] + energy(row(b.Logits, i), 1)
	}
	return nil
}

func (s *vim) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.normsGraph(b.Features).Mul(s.Alpha).Add(energyGraph(b.Logits, 1)), nil
}
