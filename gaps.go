package attach

import (
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/gaps"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// emptyCells describes how often the cells of each table column are empty in the reference
// rows, which learnCells chooses. It is the zero value if the fit rows have no cells that
// can be empty.
type emptyCells struct {
	gaps.Profile
	// Features reports whether the cells are the features, in which NaN is an empty cell.
	// Otherwise rows describe their empty cells in ood.Batch.Gaps.
	Features bool `state:"features"`
}

// matrixOf returns the empty cells of rows: a matrix with 1 for an empty cell and 0 for any
// other, like ood.Batch.Gaps. Features must not be scaled yet.
func (e emptyCells) matrixOf(b ood.Batch) blas32.General {
	if !e.Features {
		return b.Gaps
	}
	m := rows.New(b.Features.Rows, b.Features.Cols)
	for i := range m.Rows {
		for j, v := range rows.Row(b.Features, i) {
			if v != v {
				rows.Row(m, i)[j] = 1
			}
		}
	}
	return m
}

// unseen reports which rows have empty cells where the reference rows rarely have them. It
// returns nil if there are none. Features must not be scaled yet.
func (e emptyCells) unseen(b ood.Batch) []bool {
	if e.Profile.Empty == nil {
		return nil
	}
	return e.Unseen(e.matrixOf(b))
}

const (
	// emptyCellFraction is the fraction of the false-alarm rate that may be spent on rows with
	// emptier cells than the fit rows. It is small because alpha can be lowered later, and
	// because rows can be unusual in other ways.
	emptyCellFraction = 0.1
	// emptierSignificance is the significance level of the test of whether calibration rows
	// have more empty cells than the fit rows.
	emptierSignificance = 0.001
)

// learnCells counts the empty cells of the fit rows. It also reports which calibration rows
// have emptier cells, or returns nil if none has.
//
// The fit rows are the reference, so that calibration rows are scored like later rows and
// p-values are exact. If calibration rows have significantly more empty cells, later rows
// probably have them too. In that case, fit rows and calibration rows together are the
// reference.
func (in FitOptions) learnCells(d rowSplit) (e emptyCells, unseen []bool) {
	e = emptyCells{Features: d.fit.Gaps.Cols == 0 && in.Base.Standardised}
	fit, cal := e.matrixOf(d.fit), e.matrixOf(d.cal)
	if fit.Cols == 0 {
		return emptyCells{}, nil
	}
	var expected float64
	e.Profile, expected = gaps.Learn(fit, blas32.General{}, emptyCellFraction*in.Alpha)
	unseen = e.Profile.Unseen(cal)
	count := 0
	for _, is := range unseen {
		if is {
			count++
		}
	}
	if hypothesis.Binomial(count, cal.Rows, expected) < emptierSignificance {
		e.Profile, _ = gaps.Learn(fit, cal, emptyCellFraction*in.Alpha)
		unseen = e.Profile.UnseenOwn(cal)
	}
	return e, unseen
}

// GapLimits returns the limits above which a row counts as emptier than the fit rows. The
// surprise of an empty cell is log (n+1)/(c+1), if the cell is empty in c of the n fit
// rows. These include the calibration rows if ColumnGaps.Calibrated is true. The result
// rarest is the limit for the largest surprise among the empty cells of a row. The result
// together is the limit for the sum of their surprises. If inFeatures is true, NaN in the
// features is an empty cell; otherwise ood.Batch.Gaps marks empty cells. All results are
// zero if no cell can be empty.
func (b *Bundle) GapLimits() (rarest, together float64, inFeatures bool) {
	rarest, together = b.cells.Limits()
	return rarest, together, b.cells.Features
}

// ColumnGaps holds how often the cells of one column are empty, in some rows and in the fit
// rows.
type ColumnGaps struct {
	Column   string `json:"column"` // name of the column, or "column j" with j counted from 0
	Empty    int    `json:"empty"`  // number of rows in which the cell is empty
	Rows     int    `json:"rows"`
	FitEmpty int    `json:"fit_empty"` // number of fit rows in which the cell is empty
	FitRows  int    `json:"fit_rows"`
	// Calibrated reports whether FitEmpty and FitRows include the calibration rows, because
	// these had more empty cells than the fit rows.
	Calibrated bool `json:"calibrated,omitempty"`
}

// String returns a phrase such as "ram: empty in 1,878 of 1,878 rows, in 0 of the 7,511 rows
// fitted on".
func (g ColumnGaps) String() string {
	calibrated := ""
	if g.Calibrated {
		calibrated = "and calibrated "
	}
	return fmt.Sprintf("%s: empty in %s, in %s of the %s fitted %son", g.Column, rows.CountOf(g.Empty, g.Rows, "row"), display.Count(g.FitEmpty), rows.Count(g.FitRows, "row"), calibrated)
}

// UnusualGaps returns the columns whose cells are empty more often than in the fit rows:
// columns that were never empty there, and columns for which Fisher's exact test finds a
// difference. The significance level of the tests is 1 % for all columns together.
func UnusualGaps(columns []ColumnGaps) []ColumnGaps {
	var list []ColumnGaps
	for _, g := range columns {
		if gaps.Unusual(g.Empty, g.Rows, g.FitEmpty, g.FitRows, len(columns)) {
			list = append(list, g)
		}
	}
	return list
}

// GapCounter counts the empty cells of rows by column. [Bundle.GapCounter] returns one. It is
// not safe for concurrent use.
type GapCounter struct {
	bundle  *Bundle
	columns []ColumnGaps
}

// GapCounter returns a GapCounter whose counts are zero. It has no columns if the fit rows had
// no cells that can be empty.
func (b *Bundle) GapCounter() *GapCounter {
	c := &GapCounter{bundle: b, columns: make([]ColumnGaps, len(b.cells.Empty))}
	for j := range c.columns {
		c.columns[j] = ColumnGaps{Column: "column " + strconv.Itoa(j), FitEmpty: int(b.cells.Empty[j]), FitRows: b.cells.Profile.Rows}
		c.columns[j].Calibrated = c.columns[j].FitRows > b.Calibration.NFit
		if j < len(b.Base.Columns) {
			c.columns[j].Column = b.Base.Columns[j]
		}
	}
	return c
}

// Add adds the rows, in the form that Predict takes, to the counts.
func (c *GapCounter) Add(r Rows) {
	m := c.bundle.cells.matrixOf(r.Batch)
	for j := range c.columns {
		g := &c.columns[j]
		g.Rows += r.Len()
		for i := range m.Rows {
			if j < m.Cols && rows.Row(m, i)[j] > 0 {
				g.Empty++
			}
		}
	}
}

// Columns returns all columns in the order that the model takes them.
func (c *GapCounter) Columns() []ColumnGaps { return slices.Clone(c.columns) }
