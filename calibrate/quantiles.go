package calibrate

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/quantile"
)

// QuantileCalibration holds, for one target, the calibration rows' predicted
// quantiles on a grid of levels and their true values. CQR scores depend on
// the pair of levels, so that an interval whose level is chosen after the fit
// needs these and not one list of scores.
type QuantileCalibration struct {
	Levels []float64 // increasing, in (0,1)
	Grid   []float32 // n×len(Levels), each row increasing
	Y      []float32 // n
}

// Validate reports an error if the lengths of the fields do not fit together
// or the levels do not increase in (0,1).
func (q QuantileCalibration) Validate() error {
	if len(q.Levels) == 0 || len(q.Grid) != len(q.Y)*len(q.Levels) {
		return fmt.Errorf("quantile calibration has %d quantiles for %d rows at %d levels", len(q.Grid), len(q.Y), len(q.Levels))
	}
	for i, l := range q.Levels {
		if !(l > 0 && l < 1) || i > 0 && l <= q.Levels[i-1] {
			return fmt.Errorf("quantile calibration has level %v at place %d: levels must increase in (0,1)", l, i)
		}
	}
	return nil
}

// At returns the calibration of the central interval between the quantiles
// α/2 and 1−α/2. Outside the grid quantiles are constant, so that for a very
// small α the margin alone carries the tail.
func (q QuantileCalibration) At(alpha float64) (CQR, error) {
	if err := q.Validate(); err != nil {
		return CQR{}, err
	}
	n, l := len(q.Y), len(q.Levels)
	lo, hi, y := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		row := q.Grid[i*l : (i+1)*l]
		lo[i] = q.Quantile(row, alpha/2)
		hi[i] = q.Quantile(row, 1-alpha/2)
		y[i] = float64(q.Y[i])
	}
	return NewCQR(lo, hi, y)
}

// Quantile reads the quantile at a level from one row of quantiles at Levels:
// linear between levels, constant outside. Ends of intervals that At is to
// widen are read this way.
func (q QuantileCalibration) Quantile(row []float32, level float64) float64 {
	return float64(quantile.Interpolate(q.Levels, row, level))
}
