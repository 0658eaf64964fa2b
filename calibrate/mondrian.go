package calibrate

// Group names a group of rows.
type Group interface{ ~int | ~int64 | ~string }

// Mondrian calibrates intervals group by group: each group's margin comes from
// its own calibration rows, so that every group is covered with probability at
// least 1−α on its own, and not only their mixture.
//
// The promise holds where the calibration rows of a group and a new row of it
// are exchangeable, and a row's group is known without its target and says
// nothing that the calibration rows were looked at for: a column of the data,
// or bins that were chosen on other rows. A group's margin is +Inf where it has
// fewer than 1/α − 1 rows, and so for a group that has none.
//
// References: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a
// Random World, section 4.5; Boström & Johansson (2020), Mondrian Conformal
// Regressors.
type Mondrian[G Group] struct {
	Groups map[G]CQR
}

// NewMondrian computes the scores of each group as NewCQR does: groups[i] is
// that of calibration row i. It panics if the lengths differ; a NaN is an
// error.
func NewMondrian[G Group](lower, upper, y []float64, groups []G) (Mondrian[G], error) {
	if len(lower) != len(y) || len(upper) != len(y) || len(groups) != len(y) {
		panic("calibrate: quantiles, targets and groups differ in length")
	}
	all, err := cqrScores(lower, upper, y)
	if err != nil {
		return Mondrian[G]{}, err
	}
	m := Mondrian[G]{Groups: map[G]CQR{}}
	for g, rows := range rowsByGroup(groups) {
		own := make([]float64, len(rows))
		for k, i := range rows {
			own[k] = all[i]
		}
		sorted, err := sortedCopy(own)
		if err != nil {
			return Mondrian[G]{}, err
		}
		m.Groups[g] = CQR{Scores: sorted}
	}
	return m, nil
}

// Margin is CQR.Margin of the group's calibration rows, +Inf for a group
// without any.
func (m Mondrian[G]) Margin(group G, alpha float64) float64 {
	return m.Groups[group].Margin(alpha)
}

// Interval is CQR.Interval with the group's margin.
func (m Mondrian[G]) Interval(group G, lo, hi, alpha float64) (float64, float64) {
	return m.Groups[group].Interval(lo, hi, alpha)
}

func rowsByGroup[G Group](groups []G) map[G][]int {
	rows := map[G][]int{}
	for i, g := range groups {
		rows[g] = append(rows[g], i)
	}
	return rows
}

// ByGroup divides calibration rows by their groups, of which groups[i] is that
// of row i: each part calibrates its group alone, as Mondrian does, whatever is
// asked of it. It panics if groups and rows differ in number.
func (q QuantileCalibration) ByGroup(groups []string) map[string]QuantileCalibration {
	if len(groups) != len(q.Y) {
		panic("calibrate: calibration rows and groups differ in number")
	}
	parts := map[string]QuantileCalibration{}
	l := len(q.Levels)
	for g, rows := range rowsByGroup(groups) {
		part := QuantileCalibration{Levels: q.Levels}
		for _, i := range rows {
			part.Grid = append(part.Grid, q.Grid[i*l:(i+1)*l]...)
			part.Y = append(part.Y, q.Y[i])
		}
		parts[g] = part
	}
	return parts
}
