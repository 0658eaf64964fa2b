package attach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// checkTargetRows returns an error for target rows that do not fit the model.
func (in FitOptions) checkTargetRows() error {
	switch {
	case in.TargetRows.Rows == 0:
		return nil
	case in.TargetRows.Cols != in.Base.Width:
		return fmt.Errorf("the target rows have %s, but the fit rows have %d", rows.Count(in.TargetRows.Cols, "feature"), in.Base.Width)
	}
	return in.Base.checkFinite(ood.Batch{Features: in.TargetRows}, "target rows")
}

// weigh estimates the weights of the calibration rows from the target rows, if there are any.
// The features of the calibration rows are already scaled.
func (c *Calibration) weigh(ctx context.Context, in FitOptions, d rowSplit, scaling rows.Scaling) error {
	if in.TargetRows.Rows == 0 {
		return nil
	}
	ratio, weights, err := calibrate.NewDensityRatio(ctx, d.cal.Features, scaling.Apply(in.TargetRows), in.Seed)
	if err != nil {
		return fmt.Errorf("weights of the calibration rows: %w", err)
	}
	c.Ratio, c.Weights = &ratio, weights
	return nil
}

// checkWeights returns an error unless there are a weight for each calibration row and a
// coefficient for each feature, or neither.
func (b *Bundle) checkWeights() error {
	c := b.Calibration
	switch {
	case c.Weights == nil && c.Ratio == nil:
		return nil
	case c.Ratio == nil || len(c.Weights) != c.NCal || len(c.Ratio.Coefficients) != b.Base.Width:
		return fmt.Errorf("there are %d weights for %d calibration rows, or their density ratio does not have %d coefficients", len(c.Weights), c.NCal, b.Base.Width)
	case slices.ContainsFunc(append(c.Ratio.Coefficients[:b.Base.Width:b.Base.Width], c.Ratio.Intercept), func(v float64) bool { return !rows.Finite(v) }):
		return errors.New("the density ratio is not finite")
	}
	all := c.Weights
	for _, q := range c.Quantiles {
		if len(q.Weights) != len(q.Y) {
			return fmt.Errorf("there are %d weights for %d rows that calibrate intervals", len(q.Weights), len(q.Y))
		}
		all = slices.Concat(all, q.Weights)
	}
	if slices.ContainsFunc(all, func(w float64) bool { return !(w >= 0 && w <= math.MaxFloat64) }) {
		return errors.New("a weight of a calibration row is negative or not finite")
	}
	return nil
}

// ratioArray returns the density ratio as an array: its coefficients and then its intercept.
func (c Calibration) ratioArray() rows.Array {
	return rows.Vector(append(slices.Clone(c.Ratio.Coefficients), c.Ratio.Intercept))
}

// restoreWeights restores Weights and Ratio, if there are any.
func (c *Calibration) restoreWeights(s rows.State) error {
	_, hasWeights := s.Arrays["weights"]
	_, hasRatio := s.Arrays["ratio"]
	if !hasWeights && !hasRatio {
		return nil
	}
	var err error
	if c.Weights, err = s.Float64s("weights"); err != nil {
		return fmt.Errorf("%w: calibration: %w", ErrDamaged, err)
	}
	ratio, err := s.Float64s("ratio")
	if err != nil {
		return fmt.Errorf("%w: calibration: %w", ErrDamaged, err)
	}
	if len(ratio) == 0 {
		return fmt.Errorf("%w: calibration: the density ratio is empty", ErrDamaged)
	}
	last := len(ratio) - 1
	c.Ratio = &calibrate.DensityRatio{Coefficients: ratio[:last:last], Intercept: ratio[last]}
	return nil
}

// checkWeighted returns an error for options that weighted calibration rows do not support.
func (b *Bundle) checkWeighted(o PredictOptions) error {
	if b.Calibration.Weights == nil {
		return nil
	}
	var option string
	switch {
	case o.Smoothed:
		option = "Smoothed"
	case o.Samples != 0:
		option = "Samples"
	case o.MaxError != 0:
		option = "MaxError"
	case o.VennAbers:
		option = "VennAbers"
	default:
		return nil
	}
	return fmt.Errorf("%s cannot use the weights of the calibration rows; leave it out, or fit without FitOptions.TargetRows", option)
}

// weights returns the weight of each row, whose features are already scaled. It returns nil
// without weights.
func (p *Predictor) weights(r Rows) []float64 {
	ratio := p.bundle.Calibration.Ratio
	if ratio == nil {
		return nil
	}
	weights := make([]float64, r.Len())
	for i := range weights {
		weights[i] = ratio.Of(rows.Row(r.Features, i))
	}
	return weights
}

// pValue returns the p-value of the score of a row with this predicted class. weights[i] is the
// weight of row i, if rows have weights.
func (p *Predictor) pValue(class int, score float64, i int, weights []float64) float64 {
	switch {
	case weights == nil:
		return p.Conformal(class).PValue(score)
	case !p.o.FlagByClass:
		class = 0
	case class >= len(p.weighted):
		return 1 // no calibration row has this predicted class
	}
	return p.weighted[class].PValue(score, weights[i])
}
