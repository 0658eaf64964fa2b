package calibrate

import (
	"math"
	"sort"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// PredictiveSystem calibrates the whole distribution that predicted quantiles describe. It
// returns a function that makes the Distribution of a row from the row's quantiles at
// q.Levels. The Distribution keeps a reference to these quantiles.
//
// The score of a target is the level at which the row's quantile function reaches it. The
// function is linear between levels. It continues linearly beyond the outermost quantiles, to
// levels below 0 and above 1, so calibration can reach beyond the forecast. Its slope there is
// the mean slope between the outermost quantiles. If all quantiles are equal, the slope is one
// unit of the target for each unit of level. If several levels have a quantile equal to the
// target, the score is the middle level.
//
// Reference: Vovk, Petej, Toccaceli, Gammerman, Ahlberg & Carlsson (2020), Conformal
// Calibrators, with Chernozhukov, Wüthrich & Zhu (2021), Distributional Conformal Prediction,
// for forecasts by quantiles.
func (q QuantileCalibration) PredictiveSystem() (func(quantiles []float32) Distribution, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	scores := make([]float64, len(q.Y))
	for i, y := range q.Y {
		scores[i] = q.levelOf(q.row(i), float64(y))
	}
	scores, weighted, err := sortWeighted(scores, q.Weights)
	if err != nil {
		return nil, err
	}
	var before []float64
	unit := 1.
	if weighted != nil {
		unit = weighted.unit
		for _, tail := range weighted.tails {
			before = append(before, weighted.tails[0]-tail)
		}
	}
	return func(quantiles []float32) Distribution {
		if len(quantiles) != len(q.Levels) {
			panic("calibrate: levels and quantiles differ in length")
		}
		return Distribution{scores, q, quantiles, before, math.Inf(1), unit}
	}, nil
}

// levelOf returns the score of y, which increases strictly with y.
func (q QuantileCalibration) levelOf(row []float32, y float64) float64 {
	last := len(row) - 1
	first := sort.Search(len(row), func(l int) bool { return float64(row[l]) >= y })
	end := sort.Search(len(row), func(l int) bool { return float64(row[l]) > y })
	switch {
	case math.IsNaN(y):
		return y
	case end > first:
		return (q.Levels[first] + q.Levels[end-1]) / 2
	case first == 0:
		return q.Levels[0] - (float64(row[0])-y)/q.slope(row)
	case first > last:
		return q.Levels[last] + (y-float64(row[last]))/q.slope(row)
	}
	lo, hi := float64(row[first-1]), float64(row[first])
	return q.Levels[first-1] + (q.Levels[first]-q.Levels[first-1])*(y-lo)/(hi-lo)
}

// targetOf returns the smallest y whose score is at least level.
func (q QuantileCalibration) targetOf(row []float32, level float64) float64 {
	last := len(row) - 1
	switch {
	case level < q.Levels[0]:
		return float64(row[0]) - (q.Levels[0]-level)*q.slope(row)
	case level > q.Levels[last]:
		return float64(row[last]) + (level-q.Levels[last])*q.slope(row)
	}
	return float64(quantile.Interpolate(q.Levels, row, level))
}

// slope returns the slope of the quantile function beyond the outermost quantiles: the change
// of the target for each unit of level.
func (q QuantileCalibration) slope(row []float32) float64 {
	last := len(row) - 1
	if spread := float64(row[last]) - float64(row[0]); spread > 0 {
		return spread / (q.Levels[last] - q.Levels[0])
	}
	return 1
}
