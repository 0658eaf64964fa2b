package heads

import (
	"context"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/ood"
)

// sqrMethod is simultaneous quantile regression of all levels, as in the paper's
// text.
var sqrMethod = ood.Method{
	Name: "sqr",
	Doc: "Simultaneous quantile regression: a network takes the level as one more input and learns the pinball loss of " +
		"all levels at once; predictions are sorted on a grid of levels." + mlp.Doc,
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
	Doc: "Simultaneous quantile regression trained on the two ends of an interval only; levels between are " +
		"interpolated, those beyond are the ends." + mlp.Doc,
	Ref:    "Tagasovska & Lopez-Paz 2019, table 1",
	Needs:  ood.Needs{Features: true, Trainer: true, Targets: true, Ends: true},
	Memory: mlp.Memory,
	Params: mlp.Params(0.),
	Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		return fitSQR(ctx, t, t.Levels, t.Levels)
	},
	New: func() any { return &mlp.Conditional{} },
}

// fitSQR trains on levels, nil for all of (0,1), and predicts from those of grid.
func fitSQR(ctx context.Context, t ood.Training, levels, grid []float64) (any, error) {
	n, err := mlp.Train(ctx, t, train.Problem{Outputs: 1, Loss: "pinball", Conditional: true, Levels: levels})
	return &mlp.Conditional{Regression: n, Grid: grid}, err
}

// allLevels are 0.005, 0.01, …, 0.995 and .001, .0025, .9975, .999 in the
// tails: 203 levels.
func allLevels() []float64 {
	grid := []float64{0.001, 0.0025}
	for i := 1; i < 200; i++ {
		grid = append(grid, float64(i)/200)
	}
	return append(grid, 0.9975, 0.999)
}
