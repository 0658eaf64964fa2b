package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var conditionalGaussianMethod = ood.Method{
	Name: "conditional-gaussian",
	Doc: "Quantiles of a Gaussian whose mean and variance a network predicts. Use it if the noise is symmetric and close to normal. The network is trained by " +
		"the Gaussian likelihood." +
		mlp.Doc,
	Ref:    "Nix & Weigend 1994; Lakshminarayanan, Pritzel & Blundell 2017, section 2.2",
	Needs:  ood.Needs{Features: true, Trainer: true, Targets: true},
	Memory: mlp.Memory,
	Params: mlp.Params(0.),
	Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		n, err := mlp.Train(ctx, t, train.Problem{Outputs: 2, Loss: "gaussian-nll"})
		return &conditionalGaussian{n}, err
	},
	New: func() any { return &conditionalGaussian{} },
}

// conditionalGaussian has networks with two outputs, the mean and the variance, in the form
// of the loss "gaussian-nll".
type conditionalGaussian struct{ mlp.Regression }

// gaussianVariance returns the variance for the second output v of a network, as in the
// loss.
func gaussianVariance(v float64) float64 {
	return max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) + 1e-3
}

func (g *conditionalGaussian) Restored() error { return g.Check(0, 2) }

func (g *conditionalGaussian) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	deviations := normalQuantiles(levels)
	return g.EachRow(x, levels, g.Apply, func(t int, z, quantiles []float32) {
		mean, deviation := g.InUnits(t, z[0]), g.Y.Scale[t]*math.Sqrt(gaussianVariance(float64(z[1])))
		for l, d := range deviations {
			quantiles[l] = float32(mean + deviation*d)
		}
	})
}

func (g *conditionalGaussian) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	deviations := normalQuantiles(levels)
	return g.EachGraph(x, func(t int, x graph.Tensor) graph.Tensor {
		z := mlp.Graph(g.Networks[t].Layers, x).Double()
		mean, v := z.Columns(0, 1), z.Columns(1, 2)
		variance := v.Max(0.).Add(v.Abs().Neg().Exp().Log1p()).Add(1e-3)
		return variance.Sqrt().Mul(deviations).Add(mean)
	}), nil
}

// normalQuantiles returns the quantiles of the standard normal distribution at levels.
func normalQuantiles(levels []float64) []float64 {
	q := make([]float64, len(levels))
	for l, tau := range levels {
		q[l] = distuv.UnitNormal.Quantile(tau)
	}
	return q
}
