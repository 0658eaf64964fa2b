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

// emptyCells describes the empty cells of the fit rows. It is the zero value if no cell could
// be empty.
type emptyCells struct {
	gaps.Profile
	// Features tells that the cells are the features themselves, with NaN for empty ones: the
	// fit rows had no Gaps.
	Features bool `state:"features"`
}

// of returns the empty cells of rows, in the form of ood.Batch.Gaps. Features are not yet
// standardised.
func (e emptyCells) of(b ood.Batch) blas32.General {
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

// unseen reports which rows have emptier cells than the fit rows. It returns nil if none has.
// Features are as in of.
func (e emptyCells) unseen(b ood.Batch) []bool {
	if e.Profile.Empty == nil {
		return nil
	}
	return e.Unseen(e.of(b))
}

const (
	// emptyShare is the fraction of the false-alarm rate that rows with emptier cells than the
	// fit rows may use. Alpha can be lowered later, and the rest should be left for rows that
	// are unusual in other ways.
	emptyShare = 0.1
	// surelyEmptier is the probability below which calibration rows count as having more empty
	// cells than the fit rows.
	surelyEmptier = 0.001
)

// learnCells counts the empty cells of the fit rows, and reports which calibration rows have
// emptier cells, or nil. Only the fit rows are the reference, because p-values are then exact:
// calibration rows are scored in the same way as later rows. If calibration rows surely have
// more empty cells, later rows probably have them too, and both kinds of rows are the
// reference.
func (in FitOptions) learnCells(d division) (e emptyCells, unseen []bool) {
	e = emptyCells{Features: d.fit.Gaps.Cols == 0 && in.Base.Standardised}
	fit, cal := e.of(d.fit), e.of(d.cal)
	if fit.Cols == 0 {
		return emptyCells{}, nil
	}
	var likely float64
	e.Profile, likely = gaps.Learn(fit, blas32.General{}, emptyShare*in.Alpha)
	unseen = e.Profile.Unseen(cal)
	count := 0
	for _, is := range unseen {
		if is {
			count++
		}
	}
	if hypothesis.Binomial(count, cal.Rows, likely) < surelyEmptier {
		e.Profile, _ = gaps.Learn(fit, cal, emptyShare*in.Alpha)
		unseen = e.Profile.UnseenOwn(cal)
	}
	return e, unseen
}

// GapLimits returns the surprise up to which the empty cells of a row count as usual: for the
// most surprising cell, and for the sum over all cells. The surprise of an empty cell is log
// (n+1)/(c+1), if that cell is empty in c of the n fit rows. With inFeatures, cells are the
// features themselves and an empty one is NaN; otherwise cells are ood.Batch.Gaps. If no cell
// could be empty, all results are zero.
func (b *Bundle) GapLimits() (rarest, together float64, inFeatures bool) {
	rarest, together = b.cells.Limits()
	return rarest, together, b.cells.Features
}

// ColumnGaps compares how often the cells of a column are empty with the fit rows.
type ColumnGaps struct {
	Column   string `json:"column"` // its name, or its number, counted from 0
	Empty    int    `json:"empty"`  // number of Rows whose cell is empty
	Rows     int    `json:"rows"`
	FitEmpty int    `json:"fit_empty"` // number of FitRows, the fit rows, whose cell is empty
	FitRows  int    `json:"fit_rows"`
	// Calibrated tells that FitRows include the calibration rows, because these had more empty
	// cells than the fit rows.
	Calibrated bool `json:"calibrated,omitempty"`
}

// String returns a clause, for example "ram: empty in 1,878 of 1,878 rows, in 0 of the 7,511
// rows fitted on".
func (g ColumnGaps) String() string {
	and := ""
	if g.Calibrated {
		and = "and calibrated "
	}
	return fmt.Sprintf("%s: empty in %s, in %s of the %s fitted %son", g.Column, rows.CountOf(g.Empty, g.Rows, "row"), display.Count(g.FitEmpty), rows.Count(g.FitRows, "row"), and)
}

// UnusualGaps returns the columns that are empty in more rows than in the fit rows: columns
// that were never empty there, and columns for which Fisher's exact test finds a difference at
// 1 %, over all columns.
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

// GapCounter returns a GapCounter that has seen no rows. It has no columns if the fit rows had
// no cells that could be empty.
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

// Add counts rows, in the form that Predict takes.
func (c *GapCounter) Add(r Rows) {
	m := c.bundle.cells.of(r.Batch)
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
