package calibrate

import "github.com/attach-uncertainty/attach/internal/numeric/quantile"

// QuantileCalibration holds, for one target, the predicted quantiles of the calibration rows
// at several levels, and their true values. Scores depend on the two levels of an interval. To
// choose the level after the fit, an interval therefore needs the quantiles and not one list
// of scores. A quantile at another level is interpolated linearly between those at Levels, and
// constant beyond them, so for a very small α only the margin widens the interval.
type QuantileCalibration struct {
	Levels []float64 // increasing, in (0,1)
	Grid   []float32 // predicted quantiles of n rows, n×len(Levels), increasing in each row
	Y      []float32 // true values of the target, one for each row
}

// check returns an error if the fields do not fit together.
func (q QuantileCalibration) check() error {
	return quantile.Check(q.Levels, len(q.Grid), len(q.Y))
}

// row returns the quantiles of calibration row i.
func (q QuantileCalibration) row(i int) []float32 {
	return q.Grid[i*len(q.Levels) : (i+1)*len(q.Levels)]
}

// quantile interpolates the quantile at a level between those of a row.
func (q QuantileCalibration) quantile(row []float32, level float64) float64 {
	return float64(quantile.Interpolate(q.Levels, row, level))
}

// ByGroup divides the calibration rows by group. groups[i] is the group of row i. Each part
// calibrates its group separately, so every group is covered with the guaranteed probability,
// not only all rows together. ByGroup panics if groups and rows differ in number.
//
// The guarantee holds if the calibration rows of a group and a new row of this group are
// exchangeable. The group of a row must be known without its target, and groups must not be
// chosen by looking at the calibration rows. For example, a group is a column of the data, or
// a bin that was chosen on other rows. A margin is +Inf in a group of fewer than 1/α − 1 rows.
//
// References: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World, section
// 4.5; Boström & Johansson (2020), Mondrian Conformal Regressors.
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
