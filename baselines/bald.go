package baselines

import (
	"cmp"
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// baldScores is the part of the documentation that bald and bald-features share.
const baldScores = " score=predictive-entropy uses the entropy of the mean softmax instead, and score=variance the variance of the " +
	"softmax over passes, averaged over classes."

var baldMethod = ood.Method{
	Name: "bald",
	Doc: "Disagreement between passes of the network with its dropout layers switched on (MC dropout). Use it if the network was trained with dropout, and if " +
		"you can afford `passes` runs of it for each row. For a classifier it is the mutual information between the predicted class and the pass." +
		baldScores +
		" A network without dropout layers gets one before its last linear layer, with the rate of the parameter dropout; existing dropout layers keep their " +
		"rates. The network was not trained with an inserted layer: the scores then equal those of bald-features and are marked \"inserted dropout\". For a " +
		"regressor all scores are the variance over passes, of each output relative to its variance on the training rows, averaged. If the noise has constant " +
		"variance, mutual information increases with it.",
	Ref:    "Houlsby et al. 2011, arXiv:1112.5745; Gal, Islam & Ghahramani 2017, arXiv:1703.02910; for regressors: Gal & Ghahramani 2016, arXiv:1506.02142",
	Needs:  ood.Needs{Logits: true, Inputs: true, Dropout: true},
	Memory: passesMemory(64),
	Params: append(baldParams(), ood.Param{Name: "dropout", Default: .5, Takes: "least=0,below=1"}),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		s := &bald{Count: p.Int("passes"), Rate: p.Float("dropout"), Seed: t.Seed, disagreement: disagreement{p["score"].(string)}}
		if t.Regression {
			s.Regressed = []regressorOutputs{{columnVariances(t.Logits)}}
		}
		if t.Network.Dropouts() > 0 {
			return s, nil
		}
		if s.Rate == 0 {
			return nil, fmt.Errorf("%w: parameter %q is 0", ood.ErrNoDropout, "dropout")
		}
		if t.Last != nil && t.Features.Cols > 0 {
			s.Last = []lastLayer{newLastLayer(ctx, t)}
		}
		return s, nil
	},
	New: func() any { return &bald{} },
}

// baldParams returns the parameters of bald and bald-features, except the dropout rate.
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
	// Regressed has one element for a regressor and is empty for a classifier.
	Regressed []regressorOutputs `state:"regressed"`
	// Last holds the last layer if the network has no dropout and the layer is known. Dropout
	// is then applied only before this layer.
	Last []lastLayer `state:"last"`
}

// regressorOutputs holds the variance of each output of a regressor on the training rows. A
// variance of 0 is replaced by 1.
type regressorOutputs struct {
	Spread []float64 `state:"spread[outputs],positive"`
}

func (s *bald) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	if len(s.Last) > 0 {
		l := s.Last[0]
		if b.Features.Cols != l.Weight.Cols {
			return fmt.Errorf("the rows have %d features, but bald was fitted with %d", b.Features.Cols, l.Weight.Cols)
		}
		return lastLayerPasses{l, s.Count, s.Rate, s.Seed}.visitRows(ctx, b, func(i, c int, z []float32) { dst[i] = s.scoreOutputs(z, c) })
	}
	all, err := b.Network.Dropout(ctx, b.Inputs.(ood.InputBlock), s.Count, s.Rate, s.Seed)
	if err != nil {
		return err
	}
	n := len(dst)
	c := len(all) / s.Count / n
	if c*s.Count*n != len(all) {
		return fmt.Errorf("the network returns %d outputs for %d rows and %d passes", len(all), n, s.Count)
	}
	switch {
	case len(s.Regressed) == 0:
		if err := checkClasses(c); err != nil {
			return err
		}
	case len(s.Regressed[0].Spread) != c:
		return fmt.Errorf("the network returns %d outputs, but bald was fitted to %d", c, len(s.Regressed[0].Spread))
	}
	z := make([]float32, 0, s.Count*c)
	for i := range n {
		z = z[:0]
		for pass := range s.Count {
			z = append(z, all[(pass*n+i)*c:(pass*n+i+1)*c]...)
		}
		dst[i] = s.scoreOutputs(z, c)
	}
	return nil
}

// scoreOutputs returns the score of a row. Its outputs z are a matrix of passes × c.
func (s *bald) scoreOutputs(z []float32, c int) float64 {
	if len(s.Regressed) == 0 {
		return s.score(z, c)
	}
	var sum float64
	column := make([]float64, len(z)/c)
	for k, spread := range s.Regressed[0].Spread {
		for pass := range column {
			column[pass] = float64(z[pass*c+k])
		}
		sum += stat.PopVariance(column, nil) / spread
	}
	return sum / float64(c)
}

// columnVariances returns the variance of each column. A variance of 0 is replaced by 1.
func columnVariances(m blas32.General) []float64 {
	list, column := make([]float64, m.Cols), make([]float64, m.Rows)
	for k := range list {
		for i := range column {
			column[i] = float64(row(m, i)[k])
		}
		list[k] = cmp.Or(stat.PopVariance(column, nil), 1)
	}
	return list
}

func (s *bald) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it runs the network with its dropout: bald-features has a graph")
}
