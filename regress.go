package attach

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/rows"
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
func calibrateQuantiles(s heads.QuantileRegressor, x, y blas32.General) ([]calibrate.QuantileCalibration, error) {
	levels := calibrationLevels()
	q := s.Quantiles(x, levels)
	grid := blas32.General{Rows: q.Rows, Cols: q.Targets * len(levels), Stride: q.Targets * len(levels), Data: q.Data}
	bad := (*rows.NotFiniteError)(nil)
	if errors.As(rows.CheckFinite("quantiles", grid), &bad) {
		return nil, fmt.Errorf("calibration row %d has no finite quantiles: its features are far too large, remove it", bad.Row)
	}
	out := make([]calibrate.QuantileCalibration, q.Targets)
	for t := range out {
		out[t].Levels = levels
		for i := range q.Rows {
			out[t].Grid = append(out[t].Grid, q.Row(i, t)...)
			out[t].Y = append(out[t].Y, y.Data[i*y.Stride+t])
		}
	}
	return out, nil
}

// reachOf is the size up to which predicted quantiles tell anything of a target:
// a thousand times what was calibrated, unless float32 numbers of that size are
// an eighth of how far targets are from their medians apart, and quantiles round
// to one. Half of the calibration rows may be as far off as they like.
func reachOf(q calibrate.QuantileCalibration) float64 {
	n, l := len(q.Y), len(q.Levels)
	if n == 0 {
		return math.MaxFloat32
	}
	var largest float64
	sizes, off := make([]float64, n), make([]float64, n)
	for i, y := range q.Y {
		row := q.Grid[i*l : (i+1)*l]
		largest = max(largest, math.Abs(float64(y)))
		sizes[i] = max(math.Abs(float64(row[0])), math.Abs(float64(row[l-1])))
		off[i] = math.Abs(float64(y) - q.Quantile(row, .5))
	}
	slices.Sort(sizes)
	slices.Sort(off)
	largest = max(largest, sizes[n/2])
	return min(max(2*largest, min(1<<10*largest, 1<<20*off[n/2])), math.MaxFloat32)
}

// within says whether all quantiles of a row, which rise, are of that size at
// most. A NaN is not.
func within(quantiles []float32, reach float64) bool {
	for _, v := range quantiles {
		if !(math.Abs(float64(v)) <= reach) {
			return false
		}
	}
	return true
}

// endless is the quantile at a level where nothing is known of a target: any
// number is a median.
func endless(level, median float64) float64 {
	switch {
	case level < .5:
		return math.Inf(-1)
	case level > .5:
		return math.Inf(1)
	case math.IsNaN(median) || math.IsInf(median, 0):
		return 0
	}
	return median
}

// regress also returns which rows have a target of which the quantile head knows
// nothing.
func (p *Predictor) regress(out *Prediction, r Rows) (unknown []bool, err error) {
	if r.HasLogits() {
		out.Targets = r.Logits.Cols
		out.Value = float64s(r.Logits)
	}
	if p.bundle.Quantiles == nil {
		return nil, nil
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
func (p *Predictor) quantiles(out *Prediction, r Rows) (unknown []bool, err error) {
	if grouped := p.bundle.Calibration.Groups != nil; grouped && len(r.Groups) != r.Len() {
		return nil, fmt.Errorf("the bundle's intervals are calibrated by group, and there are %d groups for %d rows", len(r.Groups), r.Len())
	} else if !grouped && r.Groups != nil {
		return nil, errors.New("the rows have groups, and the bundle's intervals are not calibrated by group")
	}
	levels := slices.Concat(p.banded, []float64{0.5}, p.levels)
	q := p.bundle.Quantiles.Regressor.Quantiles(r.Features, levels)
	if r.HasLogits() && r.Logits.Cols != q.Targets {
		return nil, fmt.Errorf("the rows have %d logits, and the quantile head predicts %d targets", r.Logits.Cols, q.Targets)
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
	unknown = make([]bool, q.Rows)
	for i := range q.Rows {
		group := ""
		if r.Groups != nil {
			group = r.Groups[i]
		}
		c := p.calibrated[group]
		if c == nil {
			c = p.unseen
		}
		bands, known := make([][]float32, q.Targets), make([]bool, q.Targets)
		for t := range bands {
			row := q.Row(i, t)
			bands[t] = row[:len(p.banded)]
			reach := math.MaxFloat32
			if c != nil {
				reach = c.reach[t]
			}
			known[t] = within(row, reach)
			unknown[i] = unknown[i] || !known[t]
			for l, v := range row[len(p.banded):] {
				level, value := levels[len(p.banded)+l], float64(v)
				if !known[t] {
					value = endless(level, value)
				}
				if l == 0 {
					out.Median = append(out.Median, value)
				} else {
					out.Quantiles = append(out.Quantiles, value)
				}
			}
		}
		if c == nil {
			continue
		}
		first, end := i*q.Targets, (i+1)*q.Targets
		draw := uint64((r.First + i) * q.Targets)
		for t := range tau {
			tau[t] = calibrate.Tau(p.seed, draw+uint64(t))
		}
		c.interval(out.Lower[first:end], out.Upper[first:end], bands, tau)
		for t := range q.Targets {
			at := (first + t) * p.samples
			c.sample(out.Samples[at:at+p.samples], bands[t], t, known[t], p.seed, draw+uint64(t))
			if !known[t] {
				out.Lower[first+t], out.Upper[first+t] = math.Inf(-1), math.Inf(1)
			}
		}
	}
	return unknown, nil
}
