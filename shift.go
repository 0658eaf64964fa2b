package attach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/ood"
)

// checkTargetRows returns an error for target rows that do not fit the model.
func (in FitOptions) checkTargetRows() error {
	cal := in.Cal
	if cal.Len() == 0 {
		cal = in.Batch // calibration rows are split off
	}
	shares := in.TargetLogits.Rows > 0
	switch {
	case in.TargetRows.Rows == 0 && !shares:
		return nil
	case in.TargetRows.Cols != in.Base.Width:
		return fmt.Errorf("the target rows have %s, but the fit rows have %d", rows.Count(in.TargetRows.Cols, "feature"), in.Base.Width)
	case shares && (in.Base.Task != Classification || in.Base.Sigmoid):
		return errors.New("weights by class need a classifier with a softmax; leave out FitOptions.TargetLogits")
	case shares && (cal.Logits.Cols == 0 || cal.Labels == nil):
		return errors.New("weights by class need calibration rows with labels and logits; give both, or leave out FitOptions.TargetLogits")
	case in.IntervalScore == conformal.Ridge:
		return errors.New("intervals with the score ridge cannot have weights; choose another FitOptions.IntervalScore, or leave FitOptions.TargetRows out")
	}
	return in.Base.checkFinite(ood.Batch{Features: in.TargetRows, Logits: in.TargetLogits}, "target rows")
}

// weigh estimates the weights of the calibration rows from the target rows, if there are any.
// The features of the calibration rows are already scaled.
func (c *Calibration) weigh(ctx context.Context, in FitOptions, d rowSplit, scaling rows.Scaling) error {
	if in.TargetRows.Rows == 0 {
		return nil
	}
	target := scaling.Apply(in.TargetRows)
	if in.TargetLogits.Rows > 0 {
		shift, err := calibrate.NewLabelShift(ctx, d.cal, in.Base.pairLogits(ood.Batch{Features: target, Logits: in.TargetLogits}))
		if err != nil {
			return fmt.Errorf("weights by class: %w", err)
		}
		c.LabelShift, c.Weights = &shift, rows.Pick(shift.Weights, d.cal.Labels)
		return nil
	}
	ratio, weights, err := calibrate.NewDensityRatio(ctx, d.cal.Features, target)
	if err != nil {
		return fmt.Errorf("weights of the calibration rows: %w", err)
	}
	c.Ratio, c.Weights = &ratio, weights
	return nil
}

// checkLabelShift returns an error for shares or weights of classes that no fit gives.
func (b *Bundle) checkLabelShift() error {
	s, classes := b.Calibration.LabelShift, max(b.Base.Outputs, 2)
	switch {
	case s == nil:
		return nil
	case b.Calibration.Ratio != nil || len(b.Calibration.TrueClasses.Labels) == 0:
		return errors.New("it has shares of classes and a density ratio, or no labels of calibration rows")
	case len(s.Shares) != classes || len(s.Errors) != classes || len(s.Weights) != classes:
		return fmt.Errorf("it has shares, errors and weights of %d, %d and %d classes, but there are %d", len(s.Shares), len(s.Errors), len(s.Weights), classes)
	}
	for k, w := range s.Weights {
		if !(w > 0 && w <= math.MaxFloat64) || !(s.Shares[k] >= 0 && s.Shares[k] <= 1) || !(s.Errors[k] >= 0 && s.Errors[k] <= 1) {
			return fmt.Errorf("class %d has the share %v ± %v and the weight %v", k, s.Shares[k], s.Errors[k], w)
		}
	}
	if !(s.PValue >= 0 && s.PValue <= 1) {
		return fmt.Errorf("the p-value of the shares of classes is %v", s.PValue)
	}
	return nil
}

// checkWeights returns an error unless there are a weight for each calibration row and a
// coefficient for each feature or shares of classes, or none of these.
func (b *Bundle) checkWeights() error {
	c := b.Calibration
	switch {
	case c.LabelShift != nil:
		return b.checkLabelShift()
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

// restoreWeights restores Weights and Ratio, if there are any. TrueClasses and LabelShift must
// be set already.
func (c *Calibration) restoreWeights(s rows.State) error {
	if c.LabelShift != nil {
		for _, label := range c.TrueClasses.Labels {
			if label >= len(c.LabelShift.Weights) {
				return fmt.Errorf("%w: there are weights of %d classes, and a label is %d", ErrDamaged, len(c.LabelShift.Weights), label)
			}
		}
		c.Weights = rows.Pick(c.LabelShift.Weights, c.TrueClasses.Labels)
	}
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
// without weights. Weights by class depend on a label that is unknown, so each row has the
// largest of them: p-values grow with the weight and hold for any label.
func (p *Predictor) weights(r Rows) []float64 {
	ratio, shift := p.bundle.Calibration.Ratio, p.bundle.Calibration.LabelShift
	switch {
	case shift != nil:
		return slices.Repeat([]float64{slices.Max(shift.Weights)}, r.Len())
	case ratio == nil:
		return nil
	}
	weights := make([]float64, r.Len())
	for i := range weights {
		weights[i] = ratio.Weight(rows.Row(r.Features, i))
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
