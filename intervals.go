package attach

import (
	"errors"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/calibrate"
)

// calibrated is what one group of calibration rows, or all of them, taught
// about intervals at one level.
type calibrated struct {
	alpha   float64
	targets []calibrate.QuantileCalibration
	reach   []float64            // by target, as reachOf says
	cqr     []calibrate.CQR      // by target, for intervals with two ends
	sided   []calibrate.OneSided // by target, for those with one
	joint   *calibrate.Joint     // for a box
	systems []calibrate.PredictiveSystem
}

// calibrate prepares intervals and samples of every group.
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
	c := &calibrated{alpha: 1 - p.o.Level, targets: targets}
	if p.o.Joint {
		j, err := calibrate.NewJoint(targets, c.alpha)
		if err != nil {
			return nil, err
		}
		c.joint = &j
	}
	for _, q := range targets {
		c.reach = append(c.reach, reachOf(q))
		switch {
		case p.o.Joint:
		case p.o.Side != "":
			o, err := q.Side(p.o.Side, c.alpha)
			if err != nil {
				return nil, err
			}
			c.sided = append(c.sided, o)
		default:
			cqr, err := q.At(c.alpha)
			if err != nil {
				return nil, err
			}
			c.cqr = append(c.cqr, cqr)
		}
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

// interval writes the ends of each target's interval for a row with the
// quantiles bands, by target. tau is nil or smooths each, the first a box.
func (c *calibrated) interval(lower, upper []float64, bands [][]float32, tau []float64) {
	for t, q := range c.targets {
		switch {
		case c.sided != nil && c.sided[t].Side == calibrate.Lower:
			lower[t], upper[t] = c.bound(t, bands[t], tau), math.Inf(1)
		case c.sided != nil:
			lower[t], upper[t] = math.Inf(-1), c.bound(t, bands[t], tau)
		default:
			lower[t], upper[t] = q.Quantile(bands[t], c.alpha/2), q.Quantile(bands[t], 1-c.alpha/2)
		}
		switch {
		case c.cqr != nil && tau != nil:
			lower[t], upper[t] = c.cqr[t].SmoothedInterval(lower[t], upper[t], c.alpha, tau[t])
		case c.cqr != nil:
			lower[t], upper[t] = c.cqr[t].Interval(lower[t], upper[t], c.alpha)
		}
	}
	if c.joint != nil {
		lo, hi := c.box(lower, upper, tau)
		copy(lower, lo)
		copy(upper, hi)
	}
	if tau != nil {
		for t := range lower {
			lower[t], upper[t] = inward(lower[t], upper[t])
		}
	}
}

func (c *calibrated) bound(t int, band []float32, tau []float64) float64 {
	o := c.sided[t]
	quantile := c.targets[t].Quantile(band, o.Side.Level(c.alpha))
	if tau != nil {
		return o.SmoothedBound(quantile, c.alpha, tau[t])
	}
	return o.Bound(quantile, c.alpha)
}

func (c *calibrated) box(lo, hi, tau []float64) (lower, upper []float64) {
	if tau != nil {
		return c.joint.SmoothedBox(lo, hi, c.alpha, tau[0])
	}
	return c.joint.Box(lo, hi, c.alpha)
}

// inward moves ends to the next float32 numbers inside. Targets are float32,
// so that none is lost, and an open end stays apart from the closed one when
// it is written with as many digits as float32 has.
func inward(lower, upper float64) (float64, float64) {
	a, b := float32(lower), float32(upper)
	if float64(a) < lower {
		a = math.Nextafter32(a, float32(math.Inf(1)))
	}
	if float64(b) > upper {
		b = math.Nextafter32(b, float32(math.Inf(-1)))
	}
	return float64(a), float64(b)
}

func (c *calibrated) sample(dst []float64, band []float32, t int, known bool, seed, row uint64) {
	switch {
	case len(dst) == 0:
	case known && len(c.targets[t].Y) > 0:
		c.targets[t].Distribution(c.systems[t], band).Sample(dst, seed, row)
	default:
		calibrate.Sample(dst, seed, row, func(level float64) float64 { return endless(level, 0) })
	}
}

// checkIntervals refuses choices that the bundle cannot serve.
func (b *Bundle) checkIntervals(o PredictOptions) error {
	switch o.Side {
	case "", calibrate.Lower, calibrate.Upper:
	default:
		return fmt.Errorf("side %q is neither %s nor %s", o.Side, calibrate.Lower, calibrate.Upper)
	}
	chosen := o.Side != "" || o.Joint || o.Smoothed && o.Sets == "" || o.Samples != 0
	switch {
	case o.Side != "" && o.Joint:
		return errors.New("a joint box has both sides: ask for a side or for a joint box")
	case o.Samples < 0 || o.Samples > MaxSamples:
		return fmt.Errorf("%d samples of a row cannot be drawn: between 0 and %d can", o.Samples, MaxSamples)
	case chosen && len(b.Calibration.Quantiles) == 0:
		return errors.New("the bundle has no calibrated quantile head: intervals and samples need one that was fitted for regression")
	}
	return nil
}
