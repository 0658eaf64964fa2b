package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var baldFeaturesMethod = ood.Method{
	Name: "bald-features",
	Doc: "Disagreement between passes that drop features before the last layer. Use it in place of bald if the inputs or the network are not available, or if " +
		"bald is too slow. In each pass, a feature is dropped with the probability `dropout`; the score is the mutual information between the predicted class " +
		"and the pass." +
		baldScores +
		" A network without dropout at that place was not trained for it.",
	Ref:    "after Gal, Islam & Ghahramani 2017, arXiv:1703.02910",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Memory: passesMemory(1),
	Params: append(baldParams(), ood.Param{Name: "dropout", Default: .5, Takes: "positive,below=1"}),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		return &baldFeatures{lastLayerPasses{newLastLayer(ctx, t), p.Int("passes"), p.Float("dropout"), t.Seed}, disagreement{p["score"].(string)}}, nil
	},
	New: func() any { return &baldFeatures{} },
}

type baldFeatures struct {
	lastLayerPasses
	disagreement
}

func (s *baldFeatures) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	return s.visitRows(ctx, b, func(i, c int, z []float32) { dst[i] = s.score(z, c) })
}

func (s *baldFeatures) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	z, err := s.graph(b.Features)
	if err != nil {
		return z, err
	}
	return s.scoreGraph(z, s.Count), nil
}
