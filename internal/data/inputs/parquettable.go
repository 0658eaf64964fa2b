package inputs

import (
	"context"
	"io"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/parquet"
)

// parquetTable provides the columns of a Parquet file.
type parquetTable struct{ *parquet.File }

func (f parquetTable) unit() string { return "row" }

func (f parquetTable) records(ctx context.Context, columns []int, from position) (records, error) {
	r := &parquetReader{ctx: ctx, all: f.Columns(), row: int(from.offset), end: f.Rows()}
	if columns == nil {
		columns = upTo(len(r.all))
	}
	for _, j := range columns {
		if r.all[j].Kind != parquet.Other {
			r.columns = append(r.columns, j)
		}
	}
	r.rec.cells = make([]cell, len(r.all))
	for j := range r.all {
		if r.all[j].Kind == parquet.Other {
			r.rec.cells[j].kind = other // a model that accepts missing numbers must not take these values for missing
		}
	}
	var err error
	r.Cursor, err = f.Open(r.columns...)
	return r, err
}

// sniffParquet finds the kinds of columns. The schema tells most kinds without reading
// cells. Texts can contain numbers, so the first cells of text columns that may be inputs
// are read.
func (t *tableReader) sniffParquet(ctx context.Context) error {
	if t.file.Rows() == 0 {
		return ErrEmpty
	}
	t.header, t.counts = t.Names(), make([]cellCounts, len(t.file.Columns()))
	t.indexNames(t.header)
	for j, c := range t.file.Columns() {
		h := &t.counts[j]
		switch {
		case c.Empty:
		case c.Dates():
			h.unreadable = 1
		case c.Kind == parquet.Other || c.List && c.Kind != parquet.Number:
			h.others = 1
		case c.List:
			h.lists = 1
		case c.Kind == parquet.Number:
			h.numbers = 1
		case c.Kind == parquet.Bytes || t.o.Columns != nil && !slices.Contains(t.o.Columns, c.Name):
			h.texts = 1
		default:
			t.inspectColumn(ctx, j)
		}
	}
	return t.checkNames()
}

// inspectColumn inspects the first cells of a column. Their errors are reported when the
// column is used.
func (t *tableReader) inspectColumn(ctx context.Context, column int) {
	n := 0
	for rec, err := range recordsOf(ctx, t, []int{column}, position{}) {
		if err != nil {
			t.counts[column].texts++
			return
		}
		t.inspect(rec)
		if n++; n == sniffedRows {
			return
		}
	}
}

// firstLength returns the length of the first list in a column.
func firstLength(f *parquet.File, column int) (int, error) {
	c, err := f.Open(column)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	first, err := c.Read(context.Background(), 0, 1)
	if err != nil {
		return 0, err
	}
	return first[0].Lengths[0], nil
}

// parquetReader reads the rows of a Parquet file, several at a time.
type parquetReader struct {
	*parquet.Cursor
	ctx     context.Context
	all     []parquet.Column
	columns []int // indices of the columns that are read
	row     int
	end     int
	ahead   []parquet.Values // values that were read ahead, by index in columns
	left    int              // number of rows that are left in ahead
	rec     record
}

// parquetAhead is the largest number of rows that are decoded at a time.
const parquetAhead = 64

func (r *parquetReader) at() position { return position{offset: int64(r.row), line: r.row} }

func (r *parquetReader) seek(to position) { r.row, r.left = int(to.offset), 0 }

func (r *parquetReader) next() (*record, error) {
	if r.row >= r.end {
		return nil, io.EOF
	}
	if r.left == 0 {
		var err error
		if r.ahead, r.left, err = r.ReadSome(r.ctx, r.row, min(parquetAhead, r.end-r.row)); err != nil {
			return nil, err
		}
	}
	for k, j := range r.columns {
		r.rec.cells[j] = takeCell(&r.ahead[k], r.all[j])
	}
	r.rec.line = r.row
	r.left--
	r.row++
	return &r.rec, nil
}

// takeCell removes and returns the first cell of a column's values.
func takeCell(v *parquet.Values, column parquet.Column) (c cell) {
	n := 1
	if column.List {
		n = v.Lengths[0]
		v.Lengths = v.Lengths[1:]
	}
	switch {
	case column.Kind == parquet.Number && column.List:
		c = cell{kind: list, list: v.Numbers[:n]}
		v.Numbers = v.Numbers[n:]
	case column.Kind == parquet.Number:
		if x := v.Numbers[0]; !math.IsNaN(x) {
			c = cell{kind: number, number: x}
		}
		v.Numbers = v.Numbers[1:]
	case column.List:
		c.kind = other
		v.Bytes = v.Bytes[n:]
	default:
		if b := v.Bytes[0]; b != nil {
			c = cell{kind: text, text: string(b)}
		}
		v.Bytes = v.Bytes[1:]
	}
	return c
}
