package baselines

import (
	"context"
	"maps"

	"github.com/attach-uncertainty/attach/heads/train"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// networkDoc describes the parameters that quantile networks share.
const networkDoc = " The network has layers hidden layers of hidden units, and is trained by Adam with learning_rate, " +
	"weight_decay in the gradient and dropout, in batches of batch rows. averaging is the factor of a running mean of " +
	"the weights over epochs. Several targets have a network each."

// mostUnits and mostLayers bound what parameters ask of memory.
const (
	mostUnits  = 1 << 16 // of a layer
	mostLayers = 100
)

// networkDefaults are the parameters of quantile networks, with those of own
// in place of them.
func networkDefaults(own map[string]any) map[string]any {
	all := map[string]any{
		"learning_rate": 1e-3, "weight_decay": 0., "dropout": 0., "averaging": 0.,
		"hidden": 64., "layers": 1., "batch": 64.,
	}
	maps.Copy(all, own)
	return all
}

// networkGrid is the paper's grid of learning rates and weight decays, for
// each of the dropout rates.
func networkGrid(dropout ...float64) []map[string]any {
	var grid []map[string]any
	for _, rate := range []float64{1e-2, 1e-3, 1e-4} {
		for _, decay := range []float64{0, 1e-3, 1e-2, 1e-1, 1} {
			for _, drop := range dropout {
				grid = append(grid, map[string]any{"learning_rate": rate, "weight_decay": decay, "dropout": drop})
			}
		}
	}
	return grid
}

// networkParams are the parameters of one configuration.
type networkParams struct {
	networkShape
	config train.ModelConfig
}

// networkShape is what networks that are trained together have in common.
type networkShape struct{ hidden, layers, batch int }

func (s networkShape) widths() []int {
	widths := make([]int, s.layers)
	for i := range widths {
		widths[i] = s.hidden
	}
	return widths
}

func readNetworkParams(p *ood.ParamReader, dropout float64) networkParams {
	return networkParams{
		networkShape: networkShape{hidden: p.Between("hidden", 64, 1, mostUnits), layers: p.Between("layers", 1, 0, mostLayers), batch: p.Count("batch", 64)},
		config: train.ModelConfig{
			LearningRate: p.Positive("learning_rate", 1e-3), WeightDecay: p.NonNegative("weight_decay", 0),
			Dropout: p.NonNegative("dropout", dropout), Averaging: p.NonNegative("averaging", 0),
		},
	}
}

// networkFit trains what a method asks for with one configuration and seed.
type networkFit func(n heads.RegressionNetworks, c train.ModelConfig) heads.QuantileRegressor

// fitNetworks trains all seeds and configurations of one shape at once.
// problem says what is learnt.
func fitNetworks(
	ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any,
	problem train.Problem, dropout float64, finish networkFit,
) ([][]heads.QuantileRegressor, error) {
	configs := make([]networkParams, len(grid))
	groups := map[networkShape][]int{}
	var shapes []networkShape
	for g, params := range grid {
		p := ood.Params(params).Reader()
		configs[g] = readNetworkParams(p, dropout)
		if err := p.Err(); err != nil {
			return nil, err
		}
		shape := configs[g].networkShape
		if groups[shape] == nil {
			shapes = append(shapes, shape)
		}
		groups[shape] = append(groups[shape], g)
	}
	result := make([][]heads.QuantileRegressor, len(seeds))
	for s := range result {
		result[s] = make([]heads.QuantileRegressor, len(grid))
	}
	for i, shape := range shapes {
		p := problem
		p.Hidden, p.BatchSize, p.Validation = shape.widths(), shape.batch, validationOf(r)
		if p.Epochs = r.Epochs; p.Epochs == 0 {
			p.Epochs = heads.DefaultSQREpochs(r.X.Rows, shape.batch)
		}
		if r.Progress != nil {
			p.Progress = func(done, total int) {
				r.Progress((float64(i) + float64(done)/float64(total)) / float64(len(shapes)))
			}
		}
		for _, seed := range seeds {
			for _, g := range groups[shape] {
				c := configs[g].config
				c.Seed = seed
				p.Models = append(p.Models, c)
			}
		}
		fitted, err := heads.FitRegressionNetworks(ctx, r.X, r.Y, r.Trainer, p)
		if err != nil {
			return nil, err
		}
		for s := range seeds {
			for j, g := range groups[shape] {
				k := s*len(groups[shape]) + j
				result[s][g] = finish(fitted[k], p.Models[k])
			}
		}
	}
	return result, nil
}

// validationOf is nil where there are no rows to validate on.
func validationOf(r heads.Regression) *train.Validation {
	if r.ValidationX.Rows == 0 {
		return nil
	}
	return &train.Validation{X: r.ValidationX, Y: r.ValidationY}
}

// gridFit is the type of heads.QuantileMethod.FitGrid.
type gridFit func(ctx context.Context, r heads.Regression, seeds []uint64, grid []map[string]any) ([][]heads.QuantileRegressor, error)

// fitOne is Fit in terms of FitGrid.
func fitOne(fit gridFit) func(context.Context, heads.Regression, map[string]any) (heads.QuantileRegressor, error) {
	return func(ctx context.Context, r heads.Regression, params map[string]any) (heads.QuantileRegressor, error) {
		fitted, err := fit(ctx, r, []uint64{r.Seed}, []map[string]any{params})
		if err != nil {
			return nil, err
		}
		return fitted[0][0], nil
	}
}
