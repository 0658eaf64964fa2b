package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/ood"
)

const baldScores = " score=predictive-entropy is the entropy of the mean softmax instead, and score=variance the variance of the " +
	"softmax over passes, averaged over classes."

var baldMethod = ood.Method{
	Name: "bald",
	Doc: "Mutual information between the predicted class and the pass, over passes with the network's dropout layers switched on." +
		baldScores + " A network without dropout layers gets one before the last linear layer, of the rate that the parameter " +
		"dropout says: that is not what the network was trained with, the scores are those of bald-features, and they are " +
		"marked \"inserted dropout\". A network's own layers keep their rates.",
	Ref:    "Houlsby et al. 2011, arXiv:1112.5745; Gal, Islam & Ghahramani 2017, arXiv:1703.02910",
	Needs:  ood.Needs{Logits: true, Inputs: true, Dropout: true},
	Memory: passesMemory(64),
	Params: append(baldParams(), ood.Param{Name: "dropout", Default: .5, Takes: "least=0,below=1"}),
	Fit: func(_ context.Context, t ood.Training, p ood.Params) (any, error) {
		s := &bald{Count: p.Int("passes"), Rate: p.Float("dropout"), Seed: t.Seed, disagreement: disagreement{p["score"].(string)}}
		if t.Network.Dropouts() > 0 {
			return s, nil
		}
		if s.Rate == 0 {
			return nil, fmt.Errorf("%w: parameter %q is 0", ood.ErrNoDropout, "dropout")
		}
		if t.Last != nil && t.Features.Cols > 0 {
			s.Last = []lastLayer{newLastLayer(t)}
		}
		return s, nil
	},
	New: func() any { return &bald{} },
}

// baldParams are those of BALD and of its variant on features, but for the rate.
func baldParams() []ood.Param {
	return []ood.Param{
		{Name: "passes", Default: 100, Takes: "count,most=100000", Sweep: []any{100}},
		{Name: "score", Default: mutualInformation, Takes: "of=" + mutualInformation + "|" + predictiveEntropy + "|" + passVariance},
	}
}

type bald struct {
	disagreement
	Count int     `state:"passes,least=1,below=100001"`
	Rate  float64 `state:"dropout,least=0,below=1"`
	Seed  uint64  `state:"seed"`
	// Last is the last layer where the network has no dropout, and the layer
	// inserted before it is all there is to run.
	Last []lastLayer `state:"last"`
}

// Variant says that dropout stands in that the network n lacks.
func (s *bald) Variant(n ood.Network) string {
	if len(s.Last) > 0 || n != nil && n.Dropouts() == 0 {
		return "inserted dropout"
	}
	return ""
}

// Score implements ood.Detector.
func (s *bald) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	if len(s.Last) > 0 {
		l := s.Last[0]
		if b.Features.Cols != l.Weight.Cols {
			return fmt.Errorf("the rows have %d features, and bald was fitted with %d", b.Features.Cols, l.Weight.Cols)
		}
		return lastPasses{l, s.Count, s.Rate, s.Seed}.each(ctx, b, func(i, c int, z []float32) { dst[i] = s.score(z, c) })
	}
	all, err := b.Network.Dropout(ctx, b.Block, s.Count, s.Rate, s.Seed)
	if err != nil {
		return err
	}
	n := len(dst)
	c := len(all) / s.Count / n
	if c*s.Count*n != len(all) {
		return fmt.Errorf("the network gives %d outputs for %d rows and %d passes", len(all), n, s.Count)
	}
	if err := checkClasses(c); err != nil {
		return err
	}
	z := make([]float32, 0, s.Count*c)
	for i := range n {
		z = z[:0]
		for pass := range s.Count {
			z = append(z, all[(pass*n+i)*c:(pass*n+i+1)*c]...)
		}
		dst[i] = s.score(z, c)
	}
	return nil
}

// ScoreGraph implements graph.Detector.
func (s *bald) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it runs the network with its dropout: bald-features has a graph")
}
