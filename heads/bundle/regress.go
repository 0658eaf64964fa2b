package bundle

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/quantile"
	"github.com/attach-uncertainty/attach/ood"
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
func calibrateQuantiles(s *heads.SQR, x, y blas32.General) []calibrate.QuantileCalibration {
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

func (p *Predictor) regress(out *Prediction, batch ood.Batch) {
	b := p.bundle
	if batch.HasLogits() {
		out.Targets = batch.Logits.Cols
		out.Value = float64s(batch.Logits)
	}
	if b.SQR == nil {
		return
	}
	p.quantiles(out, batch.Features)
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
func (p *Predictor) quantiles(out *Prediction, features blas32.General) {
	levels := slices.Concat(p.banded, []float64{0.5}, p.levels)
	q := p.bundle.SQR.Quantiles(features, levels)
	out.Targets, out.Level, out.Levels = q.Targets, p.level, p.levels
	cells := q.Rows * q.Targets
	out.Median = make([]float64, 0, cells)
	if len(p.levels) > 0 {
		out.Quantiles = make([]float64, 0, cells*len(p.levels))
	}
	if p.cqr != nil {
		out.Lower, out.Upper = make([]float64, 0, cells), make([]float64, 0, cells)
	}
	alpha := 1 - p.level
	for i := range q.Rows {
		for t := range q.Targets {
			row := q.Row(i, t)
			band, rest := row[:len(p.banded)], row[len(p.banded):]
			out.Median = append(out.Median, float64(rest[0]))
			for _, v := range rest[1:] {
				out.Quantiles = append(out.Quantiles, float64(v))
			}
			if p.cqr == nil {
				continue
			}
			lo, hi := p.cqr[t].Interval(
				float64(quantile.Interpolate(p.banded, band, alpha/2)),
				float64(quantile.Interpolate(p.banded, band, 1-alpha/2)), alpha)
			out.Lower, out.Upper = append(out.Lower, lo), append(out.Upper, hi)
		}
	}
}
