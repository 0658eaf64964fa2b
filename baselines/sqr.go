package baselines

import (
	"context"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// SQR is simultaneous quantile regression of all levels, as in the paper's
// text.
var SQR = heads.QuantileMethod{
	Name: "sqr",
	Doc: "Simultaneous quantile regression: a network takes the level as one more input and learns the pinball loss of " +
		"all levels at once; predictions are sorted on a grid of levels." + networkDoc,
	Ref:          "Tagasovska & Lopez-Paz 2019, section 2",
	NeedsTrainer: true,
	Default:      networkDefaults(nil),
	Grid:         networkGrid(0),
	Fit:          fitOne(fitSQR),
	FitGrid:      fitSQR,
	Restore:      restoring(func() heads.QuantileRegressor { return &heads.SQR{} }),
}

// SQRTwoLevel is simultaneous quantile regression of the two ends of an
// interval, as in the script behind the paper's table.
var SQRTwoLevel = heads.QuantileMethod{
	Name: "sqr-two-level",
	Doc: "Simultaneous quantile regression trained on the two ends of an interval only; levels between are " +
		"interpolated, those beyond are the ends." + networkDoc,
	Ref:          "Tagasovska & Lopez-Paz 2019, table 1",
	NeedsTrainer: true,
	LevelsOnly:   true,
	EndsOnly:     true,
	Default:      networkDefaults(nil),
	Grid:         networkGrid(0),
	Fit:          fitOne(fitSQRTwoLevel),
	FitGrid:      fitSQRTwoLevel,
	Restore:      restoring(func() heads.QuantileRegressor { return &heads.SQR{} }),
}

func fitSQR(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error) {
	return fitSQRAt(ctx, r, seeds, grid, nil)
}

func fitSQRTwoLevel(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error) {
	return fitSQRAt(ctx, r, seeds, grid, endsOf(r))
}

// endsOf are the levels that matter, or those of a 95 % interval.
func endsOf(r heads.Regression) []float64 {
	if len(r.Levels) == 0 {
		return []float64{.025, .975}
	}
	levels := slices.Clone(r.Levels)
	slices.Sort(levels)
	return levels
}

func fitSQRAt(
	ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any, levels []float64,
) ([][]heads.QuantileRegressor, error) {
	validation := validationOf(r)
	if validation != nil {
		validation.Levels = endsOf(r)
	}
	var options []heads.SQROptions
	for _, seed := range seeds {
		for _, params := range grid {
			p := ood.Params(params).Reader()
			n := readNetworkParams(p, 0)
			if err := p.Err(); err != nil {
				return nil, err
			}
			o := heads.SQROptions{
				Hidden: n.widths(), Levels: levels, Epochs: r.Epochs, BatchSize: n.batch,
				LearningRate: n.config.LearningRate, WeightDecay: n.config.WeightDecay,
				Dropout: n.config.Dropout, Averaging: n.config.Averaging, Seed: seed, Validation: validation,
			}
			if r.Progress != nil {
				o.Progress = func(done, total int) { r.Progress(float64(done) / float64(total)) }
			}
			options = append(options, o)
		}
	}
	fitted, err := heads.FitSQRGrid(ctx, r.X, r.Y, r.Trainer, options)
	if err != nil {
		return nil, err
	}
	result := make([][]heads.QuantileRegressor, len(seeds))
	for s := range seeds {
		for _, f := range fitted[s*len(grid) : (s+1)*len(grid)] {
			result[s] = append(result[s], f)
		}
	}
	return result, nil
}
