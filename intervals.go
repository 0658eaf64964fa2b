package attach

import (
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// calibrated holds the calibration of intervals at one level for one group of rows, or for
// all.
type calibrated struct {
	calibrate.Intervals
	reach   []float64 // by target, from quantile.Reach
	systems []func(quantiles []float32) calibrate.Distribution
}

// calibrate prepares the intervals and samples of every group.
func (p *Predictor) calibrate() error {
	c := p.bundle.Calibration
	if len(c.Quantiles) == 0 {
		return nil
	}
	p.banded = c.Quantiles[0].Levels
	parts := map[string][]calibrate.QuantileCalibration{"": c.Quantiles}
	if c.Groups != nil {
		parts = map[string][]calibrate.QuantileCalibration{}
		for _, q := range c.Quantiles {
			for g, part := range q.ByGroup(c.Groups) {
				parts[g] = append(parts[g], part)
			}
		}
	}
	p.calibrated = make(map[string]*calibrated, len(parts))
	var err error
	for g, targets := range parts {
		if p.calibrated[g], err = p.calibrateGroup(targets); err != nil {
			return err
		}
	}
	none := make([]calibrate.QuantileCalibration, len(c.Quantiles))
	for t := range none {
		none[t].Levels = p.banded
	}
	p.unseen, err = p.calibrateGroup(none)
	return err
}

func (p *Predictor) calibrateGroup(targets []calibrate.QuantileCalibration) (*calibrated, error) {
	c := &calibrated{}
	var err error
	o := calibrate.IntervalOptions{Side: p.o.Side, Joint: p.o.Joint, Smoothed: p.o.Smoothed, Seed: p.o.Seed, Score: p.o.IntervalScore}
	if c.Intervals, err = calibrate.NewIntervals(targets, o, 1-p.o.Level); err != nil {
		return nil, err
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
		c.systems = append(c.systems, s)
	}
	return c, nil
}

// Intervals returns what conformalizes the quantiles of rows of a group, or of all rows for ""
// without groups. For a group without calibration rows, intervals are infinite. It panics
// without a calibrated interval model.
func (p *Predictor) Intervals(group string) calibrate.Intervals { return p.group(group).Intervals }

func (p *Predictor) group(name string) *calibrated {
	if c := p.calibrated[name]; c != nil {
		return c
	}
	return p.unseen
}

// checkIntervals returns an error for options that the bundle does not support.
func (b *Bundle) checkIntervals(o PredictOptions) error {
	chosen := o.Side != "" || o.Joint || o.IntervalScore != "" || o.Smoothed && o.Sets == "" || o.Samples != 0
	switch {
	case o.Samples < 0:
		return fmt.Errorf("the number of samples is %d, and must not be negative", o.Samples)
	case chosen && len(b.Calibration.Quantiles) == 0:
		return errors.New("there is no calibrated interval model; intervals and samples need one, fitted for regression")
	}
	return nil
}
