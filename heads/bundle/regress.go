package bundle

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
)

// calibrationLevels are the levels at which quantiles of calibration rows are
// stored. Intervals interpolate between them, in calibration and prediction
// alike, so that any interval level can be asked for later and is calibrated
// exactly.
func calibrationLevels() []float64 {
	return []float64{
		.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .25, .3, .35, .4, .45, .5,
		.55, .6, .65, .7, .75, .8, .85, .9, .925, .95, .975, .99, .995, .9975, .999,
	}
}

// calibrateQuantiles keeps what the head predicts for the calibration rows
// beside their targets.
func calibrateQuantiles(s heads.QuantileRegressor, x, y blas32.General) []calibrate.QuantileCalibration {
	levels := calibrationLevels()
	q := s.Quantiles(x, levels)
	out := make([]calibrate.QuantileCalibration, q.Targets)
	for t := range out {
		out[t].Levels = levels
		for i := range q.Rows {
			out[t].Grid = append(out[t].Grid, q.Row(i, t)...)
			out[t].Y = append(out[t].Y, y.Data[i*y.Stride+t])
		}
	}
	return out
}

func (p *Predictor) regress(out *Prediction, r Rows) error {
	if r.HasLogits() {
		out.Targets = r.Logits.Cols
		out.Value = float64s(r.Logits)
	}
	if p.bundle.Quantiles == nil {
		return nil
	}
	return p.quantiles(out, r)
}

func float64s(m blas32.General) []float64 {
	out := make([]float64, 0, m.Rows*m.Cols)
	for i := range m.Rows {
		for _, v := range m.Data[i*m.Stride : i*m.Stride+m.Cols] {
			out = append(out, float64(v))
		}
	}
	return out
}

// quantiles fills in what the quantile head predicts.
func (p *Predictor) quantiles(out *Prediction, r Rows) error {
	if grouped := p.bundle.Calibration.Groups != nil; grouped && len(r.Groups) != r.Len() {
		return fmt.Errorf("the bundle's intervals are calibrated by group, and there are %d groups for %d rows", len(r.Groups), r.Len())
	} else if !grouped && r.Groups != nil {
		return errors.New("the rows have groups, and the bundle's intervals are not calibrated by group")
	}
	levels := slices.Concat(p.banded, []float64{0.5}, p.levels)
	q := p.bundle.Quantiles.Regressor.Quantiles(r.Features, levels)
	if r.HasLogits() && r.Logits.Cols != q.Targets {
		return fmt.Errorf("the rows have %d logits, and the quantile head predicts %d targets", r.Logits.Cols, q.Targets)
	}
	out.Targets, out.Level, out.Levels = q.Targets, p.level, p.levels
	out.Side, out.Joint, out.Smoothed = p.side, p.joint, p.smoothed
	cells := q.Rows * q.Targets
	out.Median = make([]float64, 0, cells)
	if len(p.levels) > 0 {
		out.Quantiles = make([]float64, 0, cells*len(p.levels))
	}
	if p.calibrated != nil {
		out.Lower, out.Upper = make([]float64, cells), make([]float64, cells)
		if p.samples > 0 {
			out.Samples = make([]float64, cells*p.samples)
		}
	}
	var tau []float64
	if p.smoothed {
		tau = make([]float64, q.Targets)
	}
	for i := range q.Rows {
		bands := make([][]float32, q.Targets)
		for t := range bands {
			row := q.Row(i, t)
			rest := row[len(p.banded):]
			bands[t] = row[:len(p.banded)]
			out.Median = append(out.Median, float64(rest[0]))
			for _, v := range rest[1:] {
				out.Quantiles = append(out.Quantiles, float64(v))
			}
		}
		if p.calibrated == nil {
			continue
		}
		group := ""
		if r.Groups != nil {
			group = r.Groups[i]
		}
		c := p.calibrated[group]
		if c == nil {
			c = p.unseen
		}
		first, end := i*q.Targets, (i+1)*q.Targets
		draw := uint64((r.First + i) * q.Targets)
		for t := range tau {
			tau[t] = calibrate.Tau(p.seed, draw+uint64(t))
		}
		c.interval(out.Lower[first:end], out.Upper[first:end], bands, tau)
		for t := range q.Targets {
			at := (first + t) * p.samples
			c.sample(out.Samples[at:at+p.samples], bands[t], t, p.seed, draw+uint64(t))
		}
	}
	return nil
}
