package calibrate

import "github.com/attach-uncertainty/attach/internal/numeric/quantile"

// QuantileCalibration holds the predicted quantiles of the calibration rows at several
// levels, and the true values of one target. It holds quantiles instead of scores because
// scores depend on the two levels of an interval, which are chosen after the fit. A
// quantile at a level between two Levels is interpolated linearly. Beyond the outermost
// Levels, quantiles are constant, so only the margin widens an interval with a very small
// α.
type QuantileCalibration struct {
	Levels []float64 // increasing, in (0,1)
	Grid   []float32 // predicted quantiles of n rows, n×len(Levels), increasing in each row
	Y      []float32 // true values of the target, one for each row
	// Weights holds the weight of each row if new rows come from another distribution: see
	// WeightedConformal. Intervals.WithWeight then sets the weight of a new row. Nil gives all
	// rows the same weight.
	Weights []float64
}

// check returns an error if the lengths of the fields differ, or if levels or weights are
// invalid.
func (q QuantileCalibration) check() error {
	if err := quantile.Check(q.Levels, len(q.Grid), len(q.Y)); err != nil || q.Weights == nil {
		return err
	}
	return checkWeights(q.Weights, len(q.Y))
}

// row returns the quantiles of calibration row i.
func (q QuantileCalibration) row(i int) []float32 {
	return q.Grid[i*len(q.Levels) : (i+1)*len(q.Levels)]
}

// quantile returns the quantile of a row at a level, interpolated between the quantiles at
// Levels.
func (q QuantileCalibration) quantile(row []float32, level float64) float64 {
	return float64(quantile.Interpolate(q.Levels, row, level))
}

// add adds row i of another calibration with the same levels.
func (q *QuantileCalibration) add(from QuantileCalibration, i int) {
	q.Grid, q.Y = append(q.Grid, from.row(i)...), append(q.Y, from.Y[i])
	if from.Weights != nil {
		q.Weights = append(q.Weights, from.Weights[i])
	}
}

// ByGroup divides the calibration rows by group. groups[i] is the group of row i. Intervals
// from one part cover their group with the guaranteed probability. Without groups, the
// guarantee holds only for all rows together. ByGroup panics if groups and rows differ in
// number.
//
// The guarantee holds if the calibration rows of a group and a new row of this group are
// exchangeable. The group of a row must be known without its target. Groups must not be chosen
// by looking at the calibration rows: for example, they are the values of a column, or bins
// that were chosen on other rows. If a group has fewer than 1/α − 1 calibration rows, its
// margin is +Inf.
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
		part.add(q, i)
		parts[g] = part
	}
	return parts
}
