package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// table provides the rows of a file of cells. It knows where rows begin, and which columns
// belong to which tensors. Cells are read from the file for each use.
type table struct {
	tabular
	path     string
	header   []string // names of all columns; nil if there is none
	columns  int      // number of columns of each record
	bindings []binding
	n        int
	rowIndex rowIndex // positions of rows in a text file
}

func (t *table) rows() int { return t.n }

// rowIndex records where rows begin. To need little memory for a million rows, it stores
// the offset of every indexStep-th row only. It stores the line of a row only if this line
// does not directly follow the line of the previous row.
type rowIndex struct {
	offsets []int64
	jumps   []jump
}

type jump struct{ row, line int }

// add records where row begins.
func (m *rowIndex) add(row int, offset int64, line int) {
	if row%indexStep == 0 {
		m.offsets = append(m.offsets, offset)
	}
	if k := len(m.jumps) - 1; k < 0 || m.jumps[k].line+row-m.jumps[k].row != line {
		m.jumps = append(m.jumps, jump{row, line})
	}
}

// line returns the line of a row, counted from one.
func (m *rowIndex) line(row int) int {
	k, found := slices.BinarySearchFunc(m.jumps, row, func(j jump, row int) int { return j.row - row })
	if !found {
		k--
	}
	return m.jumps[k].line + row - m.jumps[k].row
}

// rowBefore returns row i, or an earlier row near it, and the position of the returned row.
func (t *table) rowBefore(i int) (row int, at position) {
	if t.rowIndex.offsets == nil {
		return i, position{int64(i), i}
	}
	row = i - i%indexStep
	return row, position{t.rowIndex.offsets[i/indexStep], t.rowIndex.line(row) - 1}
}

func (t *table) name(i int) string {
	line := i
	if t.rowIndex.offsets != nil {
		line = t.rowIndex.line(i)
	}
	return fmt.Sprintf("%s %d of %s", t.unit(), line, t.path)
}

func (t *table) tensors() (all []ood.Tensor) {
	for _, b := range t.bindings {
		all = append(all, b.tensor)
	}
	return all
}

// inputColumns returns the columns that belong to tensors.
func (t *table) inputColumns() []int {
	list := []int{}
	for _, b := range t.bindings {
		list = append(list, b.columns...)
	}
	return list
}

func (t *table) open() (reader, error) {
	return &tableCursor{table: t}, nil
}

// Column is a table column of numbers or of texts.
type Column struct {
	Name    string
	Numbers []float64
	Texts   []string
}

// Cells returns the given rows of the input columns, except lists. It returns nil if the
// columns have no names, or if the set is not a table.
func (s *Set) Cells(ctx context.Context, rows []int) (list []Column, err error) {
	t, ok := findSource[*table](s.src)
	if !ok || t.header == nil {
		return nil, nil
	}
	for block, err := range s.Subset(rows).Blocks(ctx, max(len(rows), 1)) {
		if err != nil {
			return nil, err
		}
		for k, b := range t.bindings {
			for i, j := range b.columns {
				c := Column{Name: t.header[j]}
				x := block.Tensors[k]
				for at := i; !b.list && at < len(x.Data); at += len(b.columns) {
					c.Numbers = append(c.Numbers, float64(x.Data[at]))
				}
				for at := i; at < len(x.Strings); at += len(b.columns) {
					c.Texts = append(c.Texts, x.Strings[at])
				}
				if !b.list {
					list = append(list, c)
				}
			}
		}
	}
	return list, nil
}

// tableCursor reads rows of a table.
type tableCursor struct {
	*table
	recs records // nil before the first read
	at   int     // next row
}

func (c *tableCursor) Close() error {
	if c.recs == nil {
		return nil
	}
	return c.recs.Close()
}

// indexStep is the number of rows between two indexed offsets. To skip more rows than this,
// a cursor seeks instead of reading them.
const indexStep = 16

// row reads the cells of row i.
func (c *tableCursor) row(ctx context.Context, i int) (*record, error) {
	if distance := i - c.at; c.recs == nil || distance < 0 || distance > indexStep {
		row, at := c.rowBefore(i)
		if c.recs != nil {
			c.recs.seek(at)
		} else {
			var err error
			if c.recs, err = c.records(ctx, c.inputColumns(), at); err != nil {
				return nil, err
			}
		}
		c.at = row
	}
	for ; c.at < i; c.at++ {
		if _, err := c.recs.next(); err != nil {
			return nil, err
		}
	}
	c.at = i + 1
	rec, err := c.recs.next()
	if err == nil && len(rec.cells) != c.columns {
		err = errors.New("the file changed while it was read")
	}
	return rec, err
}

func (c *tableCursor) read(ctx context.Context, idx []int) ([]ood.Tensor, error) {
	if !slices.IsSorted(idx) {
		return c.readShuffled(ctx, idx)
	}
	all := c.tensors()
	for k, i := range idx {
		if k%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rec, err := c.row(ctx, i)
		for j := range all {
			if err == nil {
				err = c.bindings[j].add(&all[j], rec, c.table)
			}
		}
		if err != nil {
			return nil, c.inFile(err)
		}
	}
	for j := range all {
		c.bindings[j].finish(&all[j], len(idx))
	}
	return all, nil
}

// readShuffled reads rows in the order of the file, and then reorders them as in idx.
func (c *tableCursor) readShuffled(ctx context.Context, idx []int) ([]ood.Tensor, error) {
	order := sortOrder(idx)
	all, err := c.read(ctx, rows.Pick(idx, order))
	if err != nil {
		return nil, err
	}
	offsets := make([]int, len(idx))
	for k, i := range order {
		offsets[i] = k
	}
	return ood.InputBlock{Tensors: all}.Select(offsets).(ood.InputBlock).Tensors, nil
}

// inFile adds the path to an error that does not begin with it. Errors of a context stay as
// they are. An io.EOF is replaced, because it means that the file changed.
func (t *table) inFile(err error) error {
	if strings.HasPrefix(err.Error(), t.path) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the file changed while it was read")
	}
	return fmt.Errorf("%s: %w", t.path, err)
}

// checkWidth returns an error for a row with more or fewer cells than earlier rows.
func (t *table) checkWidth(rec *record) error {
	if len(rec.cells) != t.columns {
		return fmt.Errorf("line %d: it has %s, but earlier lines have %d", rec.line, rows.Count(len(rec.cells), "column"), t.columns)
	}
	return nil
}

// location returns the line and column of a cell for messages.
func (t *table) location(line, j int) string {
	if t.header != nil {
		return fmt.Sprintf("%s %d, column %.100q", t.unit(), line, t.header[j])
	}
	return fmt.Sprintf("%s %d, column %d", t.unit(), line, j+1)
}

// badNumber returns the error for a cell that must be a number.
func (t *table) badNumber(rec *record, j int, problem string) error {
	c := &rec.cells[j]
	guess, _ := otherNotation(c.text)
	switch first := t.header == nil && t.n == 0; {
	case first && isPandasIndex(rec.cells):
		problem += "; pandas writes such a header above an index: write the table with index=False and names of columns, or with header=False"
	case first && guess == "":
		problem += "; if this line is a header, none of its cells may be a number"
	case c.isMissing():
		problem += "; fill it, or leave the row out"
	}
	return fmt.Errorf("%s: %s", t.location(rec.line, j), problem)
}
