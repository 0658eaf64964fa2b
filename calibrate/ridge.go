package calibrate

import (
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// ridge computes the intervals of the score "ridge" by full conformal prediction. For each
// candidate value of a new target, a ridge regression learns from the calibration rows and the
// new row. Its targets are signed errors, (target − median)/width, and its only input is the
// median. Here, the width lies between the quantiles α/2 and 1−α/2. The score of a row is its
// absolute residual, divided by the standard deviation that the regression gives it.
//
// The regression treats the new row like the others, so scores are exchangeable, and all rows
// both teach and calibrate. Residuals are linear in the candidate, and divided by their standard
// deviations none of them has a steeper slope than that of the new row. The candidates whose
// score is at most that of a calibration row therefore form an interval, which has a closed form.
//
// References: Nouretdinov, Melluish & Vovk (2001), Ridge Regression Confidence Machine; Vovk,
// Gammerman & Shafer (2005), Algorithmic Learning in a Random World, section 2.3, for studentized
// residuals; Burnaev & Vovk (2014), Efficiency of Conformalized Ridge Regression.
type ridge struct {
	rows    []ridgeRow
	widths  []float64 // the positive widths, in increasing order
	allowed int       // number of calibration rows that must have at least the score of a target inside
}

// ridgeRow is what the regression knows about a row.
type ridgeRow struct{ median, width, y float64 }

const (
	// ridgePenalty is the penalty of the slope: that of this many rows whose errors do not depend
	// on the median.
	ridgePenalty = 30
	// ridgeLeastWidth is the least width by which an error is divided, as a fraction of the
	// median width. Rows whose quantiles are equal would else have infinite errors.
	ridgeLeastWidth = 0.1
	// ridgeRounding is the relative distance by which ends move outwards, so that a target whose
	// score ties is inside despite rounding errors.
	ridgeRounding = 1e-9
)

// newRidge prepares the intervals at α of one target.
func (o IntervalOptions) newRidge(q QuantileCalibration, alpha float64) (ridge, error) {
	r := ridge{allowed: hypothesis.Allowed(len(q.Y), hypothesis.Forgive(alpha))}
	for i, y := range q.Y {
		row := q.ridgeRow(q.row(i), o.baseInterval(q, q.row(i), alpha, rectifier{}))
		row.y = float64(y)
		if !isFinite(row.median + row.width + row.y) {
			return ridge{}, fmt.Errorf("the score \"ridge\" cannot learn from calibration row %d, whose target or quantiles are not finite: remove the row or choose another score", i)
		}
		r.rows = append(r.rows, row)
		if row.width > 0 {
			r.widths = append(r.widths, row.width)
		}
	}
	slices.Sort(r.widths)
	return r, nil
}

// ridgeRow returns the median and the width of a row.
func (q QuantileCalibration) ridgeRow(row []float32, base baseInterval) ridgeRow {
	return ridgeRow{median: q.quantile(row, .5), width: base.hi - base.lo}
}

// ends returns the ends of the interval of a new row. They are infinite if there are too few
// calibration rows, or if the quantiles of the row are not finite.
func (r ridge) ends(row ridgeRow) (lower, upper float64) {
	if r.allowed == 0 || !isFinite(row.median+row.width) {
		return math.Inf(-1), math.Inf(1)
	}
	n := len(r.rows)
	rows := append(slices.Clone(r.rows), row)
	least := r.leastWidth(row.width)
	mean, squares := row.median, 0. // without rounding errors if all medians are equal
	for i := range rows {
		rows[i].width = max(rows[i].width, least)
		mean += (rows[i].median - row.median) / float64(n+1)
	}
	for _, c := range rows {
		squares += (c.median - mean) * (c.median - mean) / float64(n+1)
	}
	scale := 1 / math.Sqrt(max(squares, math.SmallestNonzeroFloat64))
	// The regression without the new row's error: e[i] and x[i] are errors and standardised
	// medians, and the fit of row i is level + slope·x[i].
	e, x := make([]float64, n), make([]float64, n+1)
	var level, slope float64
	total, penalised := float64(n+1), float64(n+1)+ridgePenalty
	for i, c := range rows {
		x[i] = (c.median - mean) * scale
		if i < n {
			e[i] = (c.y - c.median) / c.width
			level += e[i] / total
			slope += e[i] * x[i] / penalised
		}
	}
	lows, highs := make([]float64, n), make([]float64, n)
	own := residual{-level - slope*x[n], 1 - 1/total - x[n]*x[n]/penalised}
	own = own.over(math.Sqrt(own.slope))
	for i := range e {
		other := residual{e[i] - level - slope*x[i], -1/total - x[i]*x[n]/penalised}
		lows[i], highs[i] = own.within(other.over(math.Sqrt(1 - 1/total - x[i]*x[i]/penalised)))
	}
	slices.Sort(lows)
	slices.Sort(highs)
	at := func(end, sign float64) float64 {
		width := rows[n].width
		return row.median + width*end + sign*ridgeRounding*(math.Abs(row.median)+width*(1+math.Abs(end)))
	}
	return at(lows[r.allowed-1], -1), at(highs[n-r.allowed], 1)
}

// leastWidth returns the least width by which errors are divided, if a new row has this width. It
// depends on all rows in the same way.
func (r ridge) leastWidth(width float64) float64 {
	widths := r.widths
	if width > 0 {
		at, _ := slices.BinarySearch(widths, width)
		widths = slices.Insert(slices.Clone(widths), at, width)
	}
	if len(widths) == 0 {
		return 1 // any constant has the same effect
	}
	return ridgeLeastWidth * widths[len(widths)/2]
}

// residual is a linear function of the candidate.
type residual struct{ offset, slope float64 }

func (r residual) over(deviation float64) residual {
	return residual{r.offset / deviation, r.slope / deviation}
}

// within returns the interval of candidates at which the absolute value of r is at most that of
// the other. r must have a positive slope.
func (r residual) within(other residual) (low, high float64) {
	if !(r.slope > math.Abs(other.slope)) { // with one calibration row, both residuals have the same size
		return math.Inf(-1), math.Inf(1)
	}
	a := (other.offset - r.offset) / (r.slope - other.slope)
	b := -(other.offset + r.offset) / (r.slope + other.slope)
	return min(a, b), max(a, b)
}
