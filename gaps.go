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

// emptyCells is what a bundle keeps of the empty cells of the rows fitted on. It is
// the zero value if no cell could be empty.
type emptyCells struct {
	gaps.Profile
	// Features says that the cells are the features themselves, and empty ones NaN:
	// the rows fitted on came without Gaps.
	Features bool `state:"features"`
}

// of returns the empty cells of rows, as ood.Batch.Gaps has them. Features are as
// rows bring them, not yet standardised.
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

// unseen reports which rows have emptier cells than the rows fitted on. It returns
// nil if none has. Features are as of takes them.
func (e emptyCells) unseen(b ood.Batch) []bool {
	if e.Profile.Empty == nil {
		return nil
	}
	return e.Unseen(e.of(b))
}

const (
	// emptyShare is the part of the false-alarm rate that may go to rows with emptier
	// cells than the rows fitted on. Alpha can be lowered later: the rest should go to
	// rows that are odd otherwise.
	emptyShare = 0.1
	// surelyEmptier is the probability below which calibration rows are taken to have
	// more gaps than the rows fitted on.
	surelyEmptier = 0.001
)

// learnCells counts the empty cells of rows to fit on, and reports which calibration
// rows have emptier cells, or nil. The rows to fit on alone are the reference, because
// p-values are then exact: the calibration rows are scored as later rows are. If the
// calibration rows surely have more gaps, they show what later rows look like, and both
// are the reference.
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

// GapLimits returns up to what surprise the empty cells of a row are like those of the
// rows fitted on: the largest of its cells, and their sum. The surprise of an empty cell
// is log (n+1)/(c+1), if c of the n rows fitted on have that cell empty. With inFeatures,
// cells are the features themselves and an empty one is NaN; otherwise they are
// ood.Batch.Gaps. If no cell could be empty, all are zero.
func (b *Bundle) GapLimits() (rarest, together float64, inFeatures bool) {
	rarest, together = b.cells.Limits()
	return rarest, together, b.cells.Features
}

// ColumnGaps compares how often the cells of a column are empty with the rows that
// a bundle was fitted on.
type ColumnGaps struct {
	Column   string `json:"column"` // its name, or its number, counted from 0
	Empty    int    `json:"empty"`  // of Rows, the rows whose cell is empty
	Rows     int    `json:"rows"`
	FitEmpty int    `json:"fit_empty"` // of FitRows, the rows fitted on
	FitRows  int    `json:"fit_rows"`
	// Calibrated says that FitRows are the rows calibrated on too, because these had more
	// gaps than the rows fitted on.
	Calibrated bool `json:"calibrated,omitempty"`
}

// String is a clause, such as "ram: empty in 1,878 of 1,878 rows, in 0 of the 7,511
// rows fitted on".
func (g ColumnGaps) String() string {
	and := ""
	if g.Calibrated {
		and = "and calibrated "
	}
	return fmt.Sprintf("%s: empty in %s, in %s of the %s fitted %son", g.Column, rows.CountOf(g.Empty, g.Rows, "row"), display.Count(g.FitEmpty), rows.Count(g.FitRows, "row"), and)
}

// UnusualGaps returns those of a table's columns that are empty in more rows than the
// rows fitted on let expect: columns that never were empty in these, and columns for
// which Fisher's exact test tells a difference at 1 %, over all columns.
func UnusualGaps(columns []ColumnGaps) []ColumnGaps {
	var list []ColumnGaps
	for _, g := range columns {
		if gaps.Unusual(g.Empty, g.Rows, g.FitEmpty, g.FitRows, len(columns)) {
			list = append(list, g)
		}
	}
	return list
}

// GapCounter counts the empty cells of rows, column by column. It is made by
// [Bundle.GapCounter], and not safe for concurrent use.
type GapCounter struct {
	bundle  *Bundle
	columns []ColumnGaps
}

// GapCounter returns a GapCounter that has seen no rows. It has no columns if the rows
// fitted on had no cells that could be empty.
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

// Add counts rows, which are as Predict takes them.
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
