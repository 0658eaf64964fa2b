package baselines

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var qualityDrivenMethod = ood.Method{
	Name: "quality-driven",
	Doc: "The two ends of an interval, predicted by a network that is trained to make intervals narrow at a given coverage. Use it if you need intervals at " +
		"only one level. The loss weighs the width of the intervals that contain their target against their soft coverage. The ends are the quantiles at the " +
		"two levels of the fit. Quantiles are linear in the level between them and constant beyond." +
		mlp.Doc,
	Ref:    "Pearce, Brintrup, Zaki & Neely 2018, equation 15",
	Needs:  ood.Needs{Features: true, Trainer: true, Targets: true, Ends: true},
	Memory: mlp.Memory,
	Params: mlp.Params(0.),
	Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		n, err := mlp.Train(ctx, t, train.Problem{Outputs: 2, Loss: "quality-driven", Levels: t.Levels})
		return &qualityDriven{n, t.Levels}, err
	},
	New: func() any { return &qualityDriven{} },
}

// qualityDriven has networks with two outputs, the ends of an interval.
type qualityDriven struct {
	mlp.Regression
	Levels []float64 `state:"levels[l],rising,positive,below=1"`
}

func (d *qualityDriven) Restored() error {
	if len(d.Levels) != 2 {
		return fmt.Errorf("levels must be two, not %v", d.Levels)
	}
	return d.Check(0, 2)
}

// Quantiles implements ood.QuantileRegressor. Quantiles are linear in the level between the
// two ends, and constant beyond them. If the ends cross, they are swapped.
func (d *qualityDriven) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	return d.EachRow(x, levels, d.Apply, func(t int, z, quantiles []float32) {
		a, b := d.InUnits(t, z[0]), d.InUnits(t, z[1])
		ends := []float32{float32(min(a, b)), float32(max(a, b))}
		for l, tau := range levels {
			quantiles[l] = quantile.Interpolate(d.Levels, ends, tau)
		}
	})
}

func (d *qualityDriven) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	return d.EachGraph(x, func(t int, x graph.Tensor) graph.Tensor {
		return mlp.Graph(d.Networks[t].Layers, x).Sorted().Interpolate(d.Levels, levels)
	}), nil
}
