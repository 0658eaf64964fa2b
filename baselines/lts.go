package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var ltsMethod = ood.Method{
	Name: "lts",
	Doc: "Energy of the logits after they are scaled up, more if the row's largest features hold a smaller part of their sum. Try it for networks whose last " +
		"layer reads features after a ReLU; it stores neither the layer nor training rows. The factor is the square of (sum of all features / sum of those " +
		"above a percentile). Negative features count as 0.",
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

func (s *lts) Score(_ context.Context, dst []float64, b ood.Batch) error {
	var ratios positiveRatio
	for i := range dst {
		ratio := ratios.ratio(row(b.Features, i), s.Percentile)
		dst[i] = -softmax.New(row(b.Logits, i), 1/(ratio*ratio)).LogSum()
	}
	return nil
}

func (s *lts) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := b.Features.Relu()
	largest, _ := x.Top(countAbove(s.Percentile, x.Cols()))
	return b.Logits.Double().Mul(ratioGraph(x, largest).Square()).LogSumExp().Neg(), nil
}
