package baselines

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var ltsMethod = ood.Method{
	Name: "lts",
	Doc: "Energy of the logits after all are multiplied by the square of (sum of all features / sum of those above a percentile of them), " +
		"negative features counting as 0.",
	Ref:    "Djurisic, Liu & Nikolić 2024, arXiv:2409.01175",
	Needs:  ood.Needs{Features: true, Logits: true},
	Params: []ood.Param{percentile(95, 65, 70, 75, 80, 85, 90, 95)},
	Fit: func(_ context.Context, _ ood.Training, p ood.Params) (any, error) {
		return &lts{p.Float("percentile")}, nil
	},
	New: func() any { return &lts{} },
}

type lts struct {
	Percentile float64 `state:"percentile,least=0,below=100"`
}

// Score implements ood.Detector.
func (s *lts) Score(_ context.Context, dst []float64, b ood.Batch) error {
	var share positiveShare
	for i := range dst {
		ratio := share.of(row(b.Features, i), s.Percentile)
		dst[i] = scaledEnergy(row(b.Logits, i), ratio*ratio)
	}
	return nil
}

// ScoreGraph implements graph.Detector.
func (s *lts) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := b.Features.Relu()
	largest, _ := x.Top(countAbove(s.Percentile, x.Cols()))
	return b.Logits.Double().Mul(ratioGraph(x, largest).Square()).LogSumExp().Neg(), nil
}

// positiveShare is room for finding how much of a row lies in its largest
// features.
type positiveShare struct {
	positive []float32
	scratch  []float64
}

// of is the sum of all positive features over that of those above a percentile of
// all features.
func (s *positiveShare) of(phi []float32, percentile float64) float64 {
	if s.positive == nil {
		s.positive, s.scratch = make([]float32, len(phi)), make([]float64, len(phi))
	}
	for j, v := range phi {
		s.positive[j] = max(v, 0)
	}
	return largestOf(s.positive, countAbove(percentile, len(phi)), s.scratch).ratio(len(phi))
}

// scaledEnergy is that of logits times a factor.
func scaledEnergy(z []float32, factor float64) float64 {
	scaled := make([]float64, len(z))
	for k, v := range z {
		scaled[k] = factor * float64(v)
	}
	return -floats.LogSumExp(scaled)
}
