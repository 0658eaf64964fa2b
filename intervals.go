package attach

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// groupCalibration holds the calibration of intervals for one group of rows. Without
// groups, it holds that for all rows.
type groupCalibration struct {
	calibrate.Intervals
	ellipsoids    *calibrate.Ellipsoids    // nil unless they are requested
	cross         calibrate.CrossIntervals // replaces Intervals for cross-fitted rows
	reach         []float64                // for each target, the magnitude above which quantiles carry no information
	distributions []func(quantiles []float32) calibrate.Distribution
}

// calibrate prepares intervals and samples for every group.
func (p *Predictor) calibrate() error {
	c := p.bundle.Calibration
	if len(c.Quantiles) == 0 {
		return nil
	}
	p.intervalLevels = c.Quantiles[0].Levels
	parts := map[string][]calibrate.QuantileCalibration{"": c.Quantiles}
	if c.Groups != nil {
		parts = map[string][]calibrate.QuantileCalibration{}
		for _, q := range c.Quantiles {
			for g, part := range q.ByGroup(c.Groups) {
				parts[g] = append(parts[g], part)
			}
		}
	}
	p.calibrated = make(map[string]*groupCalibration, len(parts))
	var err error
	for g, targets := range parts {
		if p.calibrated[g], err = p.calibrateGroup(targets); err != nil {
			return err
		}
	}
	empty := make([]calibrate.QuantileCalibration, len(c.Quantiles))
	for t := range empty {
		empty[t].Levels = p.intervalLevels
	}
	p.unseenGroup, err = p.calibrateGroup(empty)
	return err
}

func (p *Predictor) calibrateGroup(targets []calibrate.QuantileCalibration) (*groupCalibration, error) {
	c := &groupCalibration{}
	var err error
	o := calibrate.IntervalOptions{Side: p.o.Side, Joint: p.o.Joint, Smoothed: p.o.Smoothed, Seed: p.o.Seed, Score: p.o.IntervalScore}
	if c.Intervals, err = calibrate.NewIntervals(targets, o, 1-p.o.Level); err != nil {
		return nil, err
	}
	if p.o.Region == conformal.Ellipsoid {
		ellipsoids, err := calibrate.NewEllipsoids(targets, 1-p.o.Level, p.o.Seed)
		if err != nil {
			return nil, err
		}
		c.ellipsoids = &ellipsoids
	}
	if folds := p.bundle.Calibration.Folds; folds != nil && len(targets[0].Y) > 0 {
		if c.cross, err = calibrate.NewCrossIntervals(targets, folds, o, 1-p.o.Level); err != nil {
			return nil, err
		}
	}
	for _, q := range targets {
		c.reach = append(c.reach, quantile.Reach(q.Levels, q.Grid, q.Y))
		if p.o.Samples == 0 {
			continue
		}
		s, err := q.PredictiveSystem()
		if err != nil {
			return nil, err
		}
		c.distributions = append(c.distributions, s)
	}
	return c, nil
}

// Intervals returns the calibrated intervals of a group, or of all rows for "" if there are no
// groups. For a group without calibration rows, intervals are infinite. It panics without a
// calibrated interval model. For cross-fitted rows (see Calibration.Folds), these intervals have
// no guarantee, because Predict uses calibrate.CrossIntervals instead.
func (p *Predictor) Intervals(group string) calibrate.Intervals {
	return p.calibrationOf(group).Intervals
}

// calibrationOf returns the calibration of the named group. Without groups, the name is "".
func (p *Predictor) calibrationOf(group string) *groupCalibration {
	if c := p.calibrated[group]; c != nil {
		return c
	}
	return p.unseenGroup
}

// checkIntervals returns an error for interval options that the bundle does not support.
func (b *Bundle) checkIntervals(o PredictOptions) error {
	requested := o.Side != "" || o.Joint || o.Region != "" || o.IntervalScore != "" || o.Smoothed && o.Sets == "" || o.Samples != 0
	switch {
	case o.Samples < 0:
		return fmt.Errorf("the number of samples is %d, and must not be negative", o.Samples)
	case requested && len(b.Calibration.Quantiles) == 0:
		return errors.New("there is no calibrated interval model; intervals and samples need one, fitted for regression")
	case o.Region != "" && !slices.Contains(conformal.Regions(), o.Region):
		return fmt.Errorf("unknown region %q; it must be one of %s", o.Region, strings.Join(conformal.Regions(), ", "))
	case o.Region != "" && o.Side != "":
		return errors.New("a region has two ends for each target: choose a region or a side")
	}
	if err := b.Calibration.checkCross(o); err != nil || o.Region != conformal.Ellipsoid {
		return err
	}
	switch {
	case len(b.Calibration.Quantiles) < 2:
		return errors.New("an ellipsoid needs two targets or more, and the interval model has one")
	case o.IntervalScore != "":
		return errors.New("ellipsoids have their own nonconformity score: choose an interval score or an ellipsoid")
	case o.Smoothed:
		return errors.New("ellipsoids cannot be smoothed: choose one of the two")
	}
	return nil
}
