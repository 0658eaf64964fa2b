package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var nciMethod = ood.Method{
	Name: "nci",
	Doc: "Minus the sum of two terms: how well the features point along the weights of the predicted class, and how long they are. Try it for classifiers that " +
		"fit their training rows almost perfectly, because it relies on neural collapse. The first term is the length of the predicted class's weights " +
		"projected on φ − μ, where μ is the mean of the training features; the second is alpha·‖φ‖₁. Under neural collapse, in-distribution features lie along " +
		"the weights of their class and far from the origin.",
	Ref:    "Liu & Qin 2025, arXiv:2311.01479",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Params: []ood.Param{{Name: "alpha", Default: 1e-4, Takes: "least=0", Sweep: []any{1e-4, 1e-3, 1e-2, 1e-1}}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		return &nci{newLastLayer(ctx, t), featureMeans(ctx, t), p.Float("alpha")}, nil
	},
	New: func() any { return &nci{} },
}

type nci struct {
	lastLayer
	Mean  []float64 `state:"mean[features]"` // mean of the training features
	Alpha float64   `state:"alpha,least=0"`
}

func (s *nci) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for i, z := range s.logits(ctx, b) {
		w := row(s.Weight, floats.MaxIdx(z))
		var dot, square, absSum float64
		for j, v := range row(b.Features, i) {
			d := float64(v) - s.Mean[j]
			dot += float64(w[j]) * d
			square += d * d
			absSum += math.Abs(float64(v))
		}
		distance := math.Sqrt(square)
		dst[i] = -dot/max(distance, math.SmallestNonzeroFloat32) - s.Alpha*absSum
	}
	return nil
}

func (s *nci) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	w := s.logitsGraph(b.Features).ArgMax().Rows(s.Weight)
	d := b.Features.Double().Sub(s.Mean)
	along := d.Mul(w).Sum().Div(d.Norm().Max(math.SmallestNonzeroFloat32))
	return along.Neg().Sub(b.Features.Double().Abs().Sum().Mul(s.Alpha)), nil
}
