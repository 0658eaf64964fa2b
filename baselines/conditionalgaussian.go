package baselines

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// ConditionalGaussian predicts a mean and a variance.
var ConditionalGaussian = heads.QuantileMethod{
	Name: "conditional-gaussian",
	Doc: "A network predicts mean and variance of a Gaussian, by its likelihood; quantiles are those of the Gaussian." +
		networkDoc,
	Ref:          "Nix & Weigend 1994; Lakshminarayanan, Pritzel & Blundell 2017, section 2.2",
	NeedsTrainer: true,
	Default:      networkDefaults(nil),
	Grid:         networkGrid(0),
	Fit:          fitOne(fitGaussian),
	FitGrid:      fitGaussian,
	Restore:      restoring(func() heads.QuantileRegressor { return &conditionalGaussian{} }),
}

func fitGaussian(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error) {
	problem := train.Problem{Outputs: 2, Loss: train.GaussianNLL}
	return fitNetworks(ctx, r, seeds, grid, problem, 0, func(n heads.RegressionNetworks, _ train.ModelConfig) heads.QuantileRegressor {
		return &conditionalGaussian{n}
	})
}

// conditionalGaussian has networks with the outputs mean and variance, as
// train.GaussianNLL reads them.
type conditionalGaussian struct{ heads.RegressionNetworks }

// State implements rows.Stater.
func (g *conditionalGaussian) State() rows.State { return rows.Save(g) }

// Restored implements rows.Restored.
func (g *conditionalGaussian) Restored() error { return g.Validate(0, 2) }

// Quantiles implements heads.QuantileRegressor. A row that holds NaN has
// quantiles NaN.
func (g *conditionalGaussian) Quantiles(x blas32.General, levels []float64) heads.Quantiles {
	n := g.RegressionNetworks
	q := newQuantiles(x, len(n.X.Mean), len(n.Networks), levels)
	deviations := make([]float64, len(levels))
	for l, tau := range levels {
		deviations[l] = distuv.UnitNormal.Quantile(tau)
	}
	n.EachBlock(x, func(first int, rows blas32.General) {
		for t, network := range n.Networks {
			z := network.Apply(rows)
			for i := range z.Rows {
				mean := n.Y.Mean[t] + n.Y.Scale[t]*float64(z.Data[i*z.Stride])
				deviation := n.Y.Scale[t] * math.Sqrt(train.GaussianVariance(float64(z.Data[i*z.Stride+1])))
				out := q.Row(first+i, t)
				for l, d := range deviations {
					out[l] = float32(mean + deviation*d)
				}
			}
		}
	})
	return q
}
