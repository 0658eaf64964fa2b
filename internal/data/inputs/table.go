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

// table provides the rows of a file of cells. It knows where rows begin, and which columns the
// tensors are made of. Cells are read again for each use.
type table struct {
	tabular
	path    string
	header  []string // names of all columns; nil if there is none
	columns int      // number of columns of each record
	bounds  []bound
	n       int
	marks   marks // positions of rows in a text file
}

func (t *table) rows() int { return t.n }

// marks records where rows begin: the position of each near-th row, and the line of each row
// that is not on the line after the previous row. This way a million rows need little memory.
type marks struct {
	places []int64
	jumps  []jump
}

type jump struct{ row, line int }

// add records where the next row begins.
func (m *marks) add(row int, place int64, line int) {
	if row%near == 0 {
		m.places = append(m.places, place)
	}
	if k := len(m.jumps) - 1; k < 0 || m.jumps[k].line+row-m.jumps[k].row != line {
		m.jumps = append(m.jumps, jump{row, line})
	}
}

// line returns the line of a row, counted from one.
func (m *marks) line(row int) int {
	k, found := slices.BinarySearchFunc(m.jumps, row, func(j jump, row int) int { return j.row - row })
	if !found {
		k--
	}
	return m.jumps[k].line + row - m.jumps[k].row
}

// before returns row i, or a row shortly before it, and its position.
func (t *table) before(i int) (row int, at mark) {
	if t.marks.places == nil {
		return i, mark{int64(i), i}
	}
	row = i - i%near
	return row, mark{t.marks.places[i/near], t.marks.line(row) - 1}
}

func (t *table) name(i int) string {
	line := i
	if t.marks.places != nil {
		line = t.marks.line(i)
	}
	return fmt.Sprintf("%s %d of %s", t.unit(), line, t.path)
}

func (t *table) tensors() (all []ood.Tensor) {
	for _, b := range t.bounds {
		all = append(all, b.tensor)
	}
	return all
}

// needed returns the columns that the tensors are made of.
func (t *table) needed() []int {
	list := []int{}
	for _, b := range t.bounds {
		list = append(list, b.columns...)
	}
	return list
}

func (t *table) open() (reader, error) {
	return &tableCursor{table: t}, nil
}

// Column is a table column: numbers, or texts.
type Column struct {
	Name    string
	Numbers []float64
	Texts   []string
}

// Cells returns the input columns of rows, except lists, or nil if the columns have no names.
func (s *Set) Cells(ctx context.Context, rows []int) (list []Column, err error) {
	t, ok := find[*table](s.src)
	if !ok || t.header == nil {
		return nil, nil
	}
	for block, err := range s.Subset(rows).Blocks(ctx, max(len(rows), 1)) {
		if err != nil {
			return nil, err
		}
		for k, b := range t.bounds {
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

// near is how many rows are skipped by reading instead of seeking.
const near = 16

// row reads one row's cells.
func (c *tableCursor) row(ctx context.Context, i int) (*record, error) {
	if gap := i - c.at; c.recs == nil || gap < 0 || gap > near {
		row, at := c.before(i)
		if c.recs != nil {
			c.recs.seek(at)
		} else {
			var err error
			if c.recs, err = c.records(ctx, c.needed(), at); err != nil {
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
		return c.shuffled(ctx, idx)
	}
	all := c.tensors()
	for k, i := range idx {
		if k%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rec, err := c.row(ctx, i)
		for j := range all {
			if err == nil {
				err = c.bounds[j].add(&all[j], rec, c.table)
			}
		}
		if err != nil {
			return nil, c.inFile(err)
		}
	}
	for j := range all {
		c.bounds[j].finish(&all[j], len(idx))
	}
	return all, nil
}

// shuffled reads rows in the order of the file, and then reorders them as in idx.
func (c *tableCursor) shuffled(ctx context.Context, idx []int) ([]ood.Tensor, error) {
	order := inOrder(idx)
	all, err := c.read(ctx, pick(idx, order))
	if err != nil {
		return nil, err
	}
	places := make([]int, len(idx))
	for k, i := range order {
		places[i] = k
	}
	return ood.InputBlock{Tensors: all}.Select(places).(ood.InputBlock).Tensors, nil
}

// inFile adds the file to an error that does not name it.
func (t *table) inFile(err error) error {
	if strings.HasPrefix(err.Error(), t.path) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the file changed while it was read")
	}
	return fmt.Errorf("%s: %w", t.path, err)
}

// checkWidth returns an error for a row with another number of cells than earlier rows.
func (t *table) checkWidth(rec *record) error {
	if len(rec.cells) != t.columns {
		return fmt.Errorf("line %d: it has %s, but earlier lines have %d", rec.line, rows.Count(len(rec.cells), "column"), t.columns)
	}
	return nil
}

// where returns the line and column of a cell.
func (t *table) where(line, j int) string {
	if t.header != nil {
		return fmt.Sprintf("%s %d, column %.100q", t.unit(), line, t.header[j])
	}
	return fmt.Sprintf("%s %d, column %d", t.unit(), line, j+1)
}

// badNumber returns the error for a cell that must be a number.
func (t *table) badNumber(rec *record, j int, wrong string) error {
	c := &rec.cells[j]
	guess, _ := otherNotation(c.text)
	switch first := t.header == nil && t.n == 0; {
	case first && isPandasIndex(rec.cells):
		wrong += "; pandas writes such a header above an index: write the table with index=False and names of columns, or with header=False"
	case first && guess == "":
		wrong += "; if this line is a header, none of its cells may be a number"
	case c.gap():
		wrong += "; fill it, or leave the row out"
	}
	return fmt.Errorf("%s: %s", t.where(rec.line, j), wrong)
}
