package calibrate

import "github.com/attach-uncertainty/attach/internal/numeric/quantile"

// QuantileCalibration holds, for one target, the calibration rows' predicted
// quantiles on a grid of levels and their true values. Scores depend on
// the pair of levels, so that an interval whose level is chosen after the fit
// needs these and not one list of scores. A quantile at another level is linear between
// those at Levels, and constant outside, so that for a very small α the margin alone
// carries the tail.
type QuantileCalibration struct {
	Levels []float64 // increasing, in (0,1)
	Grid   []float32 // n×len(Levels), each row increasing
	Y      []float32 // n
}

// check refuses fields that do not fit together.
func (q QuantileCalibration) check() error {
	return quantile.Check(q.Levels, len(q.Grid), len(q.Y))
}

// row is the quantiles of calibration row i.
func (q QuantileCalibration) row(i int) []float32 {
	return q.Grid[i*len(q.Levels) : (i+1)*len(q.Levels)]
}

// quantile is that at a level of one row of quantiles at Levels.
func (q QuantileCalibration) quantile(row []float32, level float64) float64 {
	return float64(quantile.Interpolate(q.Levels, row, level))
}

// ByGroup divides calibration rows by their groups, of which groups[i] is that
// of row i. Each part calibrates its group alone, whatever is asked of it, so
// that every group is covered with the probability that is promised, and not only
// their mixture. It panics if groups and rows differ in number.
//
// The promise holds where the calibration rows of a group and a new row of it
// are exchangeable, and a row's group is known without its target and says
// nothing that the calibration rows were looked at for: a column of the data,
// or bins that were chosen on other rows. A margin is +Inf in a group of fewer
// than 1/α − 1 rows.
//
// References: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a
// Random World, section 4.5; Boström & Johansson (2020), Mondrian Conformal
// Regressors.
func (q QuantileCalibration) ByGroup(groups []string) map[string]QuantileCalibration {
	if len(groups) != len(q.Y) {
		panic("calibrate: calibration rows and groups differ in number")
	}
	parts := map[string]QuantileCalibration{}
	for i, g := range groups {
		part := parts[g]
		part.Levels = q.Levels
		part.Grid, part.Y = append(part.Grid, q.row(i)...), append(part.Y, q.Y[i])
		parts[g] = part
	}
	return parts
}
