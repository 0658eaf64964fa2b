package baselines

import (
	"fmt"
	"maps"

	"github.com/attach-uncertainty/attach/heads"
)

// State implements heads.Stater with that of heads.RegressionNetworks.
func (g conditionalGaussian) State() heads.State { return g.networks.State() }

func restoreGaussian(s heads.State) (heads.QuantileRegressor, error) {
	n, err := heads.RestoreRegressionNetworks(s, 0, 2)
	if err != nil {
		return nil, err
	}
	return conditionalGaussian{n}, nil
}

// State implements heads.Stater with that of heads.RegressionNetworks and the
// array "levels" of the two ends.
func (d qualityDriven) State() heads.State {
	s := d.networks.State()
	s.Arrays["levels"] = heads.Vector(d.levels)
	return s
}

func restoreQualityDriven(s heads.State) (heads.QuantileRegressor, error) {
	n, err := heads.RestoreRegressionNetworks(s, 0, 2)
	if err != nil {
		return nil, err
	}
	levels, err := s.Float64s("levels")
	if err != nil {
		return nil, err
	}
	if len(levels) != 2 || !(0 < levels[0] && levels[0] <= levels[1] && levels[1] < 1) {
		return nil, fmt.Errorf("array %q must be two levels that increase within (0,1), not %v", "levels", levels)
	}
	return qualityDriven{n, levels}, nil
}

// State implements heads.Stater with that of heads.RegressionNetworks, the
// parameter "dropout" and the seed of the passes.
func (d dropoutQuantiles) State() heads.State {
	s := d.networks.State()
	s.Params["dropout"] = d.rate
	maps.Copy(s.Params, seedParams(d.seed))
	return s
}

func restoreDropout(s heads.State) (heads.QuantileRegressor, error) {
	n, err := heads.RestoreRegressionNetworks(s, 0, 1)
	if err != nil {
		return nil, err
	}
	rate, err := s.Number("dropout")
	if err != nil {
		return nil, err
	}
	if !(rate >= 0 && rate < 1) {
		return nil, fmt.Errorf("parameter %q must be at least 0 and below 1, not %v", "dropout", rate)
	}
	seed, err := restoreSeed(s)
	if err != nil {
		return nil, err
	}
	return dropoutQuantiles{n, rate, seed}, nil
}
