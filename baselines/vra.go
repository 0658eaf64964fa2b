package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var vraMethod = ood.Method{
	Name: "vra",
	Doc: "Energy of the logits after unusually large features are clipped and small features are set to 0. Try it if both large and small features distinguish " +
		"OOD inputs. Each feature is clipped from above at the `high` percentile of its values on the training rows, and set to 0 below the `low` percentile; " +
		"below=clip raises it to that percentile instead. high must not be less than low. It is applied to the features that enter the last layer, averaged " +
		"over space.",
	Ref:   "Xu, Lian, Liu & Tao 2023, arXiv:2302.11716; below=clip: as pytorch-ood's VRA",
	Needs: ood.Needs{Features: true, Logits: true, Weights: true},
	Params: []ood.Param{
		{Name: "low", Default: 60, Takes: "least=0,most=100"}, {Name: "high", Default: 90, Takes: "least=0,most=100"},
		{Name: "below", Default: belowZero, Takes: "of=" + belowZero + "|" + belowClip},
	},
	Sweep: []ood.Params{
		{"low": 60., "high": 90.}, {"low": 60., "high": 95.}, {"low": 50., "high": 85.}, {"low": 1., "high": 99., "below": belowClip},
	},
	Fit: fitVRA,
	New: func() any { return &vra{} },
}

// These are the values of the parameter "below".
const (
	belowZero = "zero"
	belowClip = "clip"
)

type vra struct {
	lastLayer
	Low   []float64 `state:"low[features]"`
	High  []float64 `state:"high[features]"`
	Below string    `state:"below,of=zero|clip"`
}

func fitVRA(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	low, high := p.Float("low"), p.Float("high")
	if high < low {
		return nil, fmt.Errorf("parameter %q is %v, below %q of %v", "high", high, "low", low)
	}
	s := &vra{lastLayer: newLastLayer(ctx, t), Below: p["below"].(string)}
	column := make([]float64, t.Len())
	for j := range t.Features.Cols {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range column {
			column[i] = float64(row(t.Features, i)[j])
		}
		s.Low, s.High = append(s.Low, quantile.Percentile(column, low)), append(s.High, quantile.Percentile(column, high))
	}
	return s, nil
}

func (s *vra) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.energies(dst, b.Features, func(rectified, phi []float32) float64 {
		for j, v := range phi {
			low, high := float32(s.Low[j]), float32(s.High[j])
			switch {
			case v > high:
				v = high
			case v < low && s.Below == belowZero:
				v = 0
			case v < low:
				v = low
			}
			rectified[j] = v
		}
		return 1
	})
	return nil
}

func (s *vra) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := b.Features
	clipped := x.Min(s.High)
	if s.Below == belowClip {
		return s.energyGraph(clipped.Max(s.Low)), nil
	}
	return s.energyGraph(x.Less(s.Low).Choose(x.Mul(0.), clipped)), nil
}
