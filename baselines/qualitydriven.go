package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/quantile"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// QualityDriven predicts the two ends of an interval.
var QualityDriven = heads.QuantileMethod{
	Name: "quality-driven",
	Doc: "A network predicts the two ends of an interval, by a loss that weighs the width of the intervals that capture " +
		"against their soft coverage. The ends stand for the two levels asked in the fit; between them quantiles are linear " +
		"in the level, beyond them constant." + networkDoc,
	Ref:          "Pearce, Brintrup, Zaki & Neely 2018, equation 15",
	NeedsTrainer: true,
	LevelsOnly:   true,
	EndsOnly:     true,
	Default:      networkDefaults(nil),
	Grid:         networkGrid(0),
	Fit:          fitOne(fitQualityDriven),
	FitGrid:      fitQualityDriven,
	Restore:      restoring(func() heads.QuantileRegressor { return &qualityDriven{} }),
}

func fitQualityDriven(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error) {
	levels := endsOf(r)
	if len(levels) != 2 {
		return nil, fmt.Errorf("a quality-driven interval has two levels, not %d", len(levels))
	}
	problem := train.Problem{Outputs: 2, Loss: train.QualityDriven, Levels: levels}
	return fitNetworks(ctx, r, seeds, grid, problem, 0, func(n heads.RegressionNetworks, _ train.ModelConfig) heads.QuantileRegressor {
		return &qualityDriven{n, levels}
	})
}

// qualityDriven has networks whose outputs are the ends of an interval.
type qualityDriven struct {
	heads.RegressionNetworks
	Levels []float64 `state:"levels[l],rising,positive"`
}

// State implements rows.Stater.
func (d *qualityDriven) State() rows.State { return rows.Save(d) }

// Restored implements rows.Restored.
func (d *qualityDriven) Restored() error {
	if len(d.Levels) != 2 || d.Levels[1] >= 1 {
		return fmt.Errorf("levels must be two within (0,1), not %v", d.Levels)
	}
	return d.Validate(0, 2)
}

// Quantiles implements heads.QuantileRegressor: linear between the two ends,
// constant beyond. Ends that cross are swapped. A row that holds NaN has
// quantiles NaN.
func (d *qualityDriven) Quantiles(x blas32.General, levels []float64) heads.Quantiles {
	n := d.RegressionNetworks
	q := newQuantiles(x, len(n.X.Mean), len(n.Networks), levels)
	n.EachBlock(x, func(first int, rows blas32.General) {
		for t, network := range n.Networks {
			z := network.Apply(rows)
			for i := range z.Rows {
				a := n.Y.Mean[t] + n.Y.Scale[t]*float64(z.Data[i*z.Stride])
				b := n.Y.Mean[t] + n.Y.Scale[t]*float64(z.Data[i*z.Stride+1])
				ends := []float32{float32(min(a, b)), float32(max(a, b))}
				out := q.Row(first+i, t)
				for l, tau := range levels {
					out[l] = quantile.Interpolate(d.Levels, ends, tau)
				}
			}
		}
	})
	return q
}
