package heads

import (
	"context"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/ood"
)

// sqrMethod is simultaneous quantile regression of all levels, as in the text of the paper.
var sqrMethod = ood.Method{
	Name: "sqr",
	Doc: "Simultaneous quantile regression (SQR): one network takes the level as an additional input, and learns the pinball loss of all levels at once. Use it " +
		"for networks that read images, texts or series, where it is the default; one fit serves all levels. Predictions are sorted on a grid of levels." +
		mlp.Doc,
	Ref:    "Tagasovska & Lopez-Paz 2019, section 2",
	Needs:  ood.Needs{Features: true, Trainer: true, Targets: true},
	Memory: mlp.Memory,
	Params: mlp.Params(0.),
	Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		return fitSQR(ctx, t, nil, allLevels())
	},
	New: func() any { return &mlp.Conditional{} },
}

var sqrTwoLevelMethod = ood.Method{
	Name: "sqr-two-level",
	Doc: "Simultaneous quantile regression, trained only on the two ends of an interval. Use it if you need intervals at only one level. Levels between are " +
		"interpolated, and levels beyond equal the ends." +
		mlp.Doc,
	Ref:    "Tagasovska & Lopez-Paz 2019, table 1",
	Needs:  ood.Needs{Features: true, Trainer: true, Targets: true, Ends: true},
	Memory: mlp.Memory,
	Params: mlp.Params(0.),
	Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		return fitSQR(ctx, t, t.Levels, t.Levels)
	},
	New: func() any { return &mlp.Conditional{} },
}

// fitSQR trains a network for each target on the given levels, or on all of (0,1) if levels
// is nil. Predictions are interpolated between the levels of grid.
func fitSQR(ctx context.Context, t ood.Training, levels, grid []float64) (any, error) {
	n, err := mlp.Train(ctx, t, train.Problem{Outputs: 1, Loss: "pinball", Conditional: true, Levels: levels})
	return &mlp.Conditional{Regression: n, Grid: grid}, err
}

// allLevels returns the levels 0.005, 0.01, …, 0.995, and 0.001, 0.0025, 0.9975 and 0.999
// for the tails. These are 203 levels.
func allLevels() []float64 {
	grid := []float64{0.001, 0.0025}
	for i := 1; i < 200; i++ {
		grid = append(grid, float64(i)/200)
	}
	return append(grid, 0.9975, 0.999)
}
