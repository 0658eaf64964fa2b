package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/attach-uncertainty/attach/internal/float16"
)

// Values are cells of a column, those of lists end to end.
type Values struct {
	Numbers []float64 // NaN where there is none
	Bytes   [][]byte  // of texts and bytes; nil where there is none
	// Lengths are how many each row has, nil of a column that has one a row.
	Lengths []int
}

// Cursor reads rows of some columns. It is not safe for concurrent use.
type Cursor struct {
	path    string
	r       *reader
	streams []*stream
}

// Open starts reading the columns of these numbers, which are of no [Other] kind.
func (f *File) Open(columns ...int) (*Cursor, error) {
	r, err := openReader(f.path)
	if err != nil {
		return nil, err
	}
	if r.rows != f.rows || len(r.columns) != len(f.columns) {
		r.Close()
		return nil, fmt.Errorf("%s: the file changed while it was read", f.path)
	}
	c := &Cursor{path: f.path, r: r}
	for _, j := range columns {
		c.streams = append(c.streams, &stream{r: r, column: j, group: -1})
	}
	return c, nil
}

// Close releases the file.
func (c *Cursor) Close() error {
	for _, s := range c.streams {
		s.close()
	}
	return c.r.Close()
}

// Read reads n rows from start on, of each column. Rows after those of the last
// call are read without a look at others; of others the row group is read from its
// beginning where the file has no index of its pages. Rows out of range panic.
func (c *Cursor) Read(ctx context.Context, start, n int) (cells []Values, err error) {
	if start < 0 || n < 0 || start > c.r.rows-n {
		panic("parquet: rows out of range")
	}
	for _, s := range c.streams {
		v, err := c.read(ctx, s, start, n)
		if err != nil {
			return nil, err
		}
		cells = append(cells, v)
	}
	return cells, nil
}

func (c *Cursor) read(ctx context.Context, s *stream, start, n int) (v Values, err error) {
	defer func() {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	defer guard(c.path, &err)
	if s.at != start || s.group < 0 {
		if err := s.seek(start); err != nil {
			return v, err
		}
	}
	return s.read(ctx, n)
}

// stream is the values of one column, in order.
type stream struct {
	r      *reader
	column int
	at     int // row that is next
	group  int // that pages are of, -1 for none
	pages  parquet.Pages
	values parquet.ValueReader // of a page, or nil
	ahead  []parquet.Value     // values that were read of it
	room   []parquet.Value
}

func (s *stream) close() {
	if s.pages != nil {
		s.pages.Close()
	}
	s.pages, s.values, s.ahead = nil, nil, nil
}

// enter goes to the beginning of a row group.
func (s *stream) enter(group int) {
	s.close()
	s.group = group
	s.at = s.r.starts[group]
	s.pages = s.r.groups[group].ColumnChunks()[s.column].Pages()
}

// seek goes to a row.
func (s *stream) seek(row int) error {
	group, found := slices.BinarySearch(s.r.starts, row)
	if !found {
		group--
	}
	for group < len(s.r.groups)-1 && s.r.starts[group+1] == row { // groups without rows
		group++
	}
	if group >= len(s.r.groups) {
		s.group, s.at = len(s.r.groups), row
		return nil
	}
	if s.group == group && s.at <= row && row-s.at < 1024 {
		return s.skip(row - s.at)
	}
	s.enter(group)
	if row == s.at {
		return nil
	}
	s.at = row
	return s.pages.SeekToRow(int64(row - s.r.starts[group]))
}

func (s *stream) skip(n int) error {
	for range n {
		if err := s.row(func(parquet.Value) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// peek returns the next value of the group, or io.EOF.
func (s *stream) peek() (parquet.Value, error) {
	for len(s.ahead) == 0 {
		if s.values == nil {
			page, err := s.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, err
			}
			s.values = page.Values()
		}
		if s.room == nil {
			s.room = make([]parquet.Value, 256)
		}
		n, err := s.values.ReadValues(s.room)
		s.ahead = s.room[:n]
		if errors.Is(err, io.EOF) || n == 0 && err == nil {
			s.values = nil
		} else if err != nil {
			return parquet.Value{}, err
		}
	}
	return s.ahead[0], nil
}

// row passes on the values of the next row.
func (s *stream) row(use func(parquet.Value) error) error {
	for s.at >= s.r.starts[s.group+1] {
		s.enter(s.group + 1)
	}
	for first := true; ; first = false {
		v, err := s.peek()
		if errors.Is(err, io.EOF) && !first {
			break
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("column %.100q ends at row %d: %w", s.r.columns[s.column].Name, s.at, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		if !first && v.RepetitionLevel() == 0 {
			break
		}
		if err := use(v); err != nil {
			return err
		}
		s.ahead = s.ahead[1:]
	}
	s.at++
	return nil
}

// read reads n rows.
func (s *stream) read(ctx context.Context, n int) (v Values, err error) {
	column := s.r.columns[s.column]
	add := v.adder(column)
	element := column.leaf.MaxDefinitionLevel() // from which on a list has one
	if column.leaf.Optional() {
		element--
	}
	count := 0
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil {
			return v, ctx.Err()
		}
		count = 0
		err := s.row(func(value parquet.Value) error {
			// A list that is empty, or not there, is a single value without one.
			if column.List && value.IsNull() && value.DefinitionLevel() < element {
				return nil
			}
			count++
			add(value)
			return nil
		})
		if err != nil {
			return v, err
		}
		if column.List {
			v.Lengths = append(v.Lengths, count)
		} else if count != 1 {
			return v, fmt.Errorf("row %d of column %.100q has %d values", s.at-1, column.Name, count)
		}
	}
	return v, nil
}

// adder appends a value to those of a column.
func (v *Values) adder(c Column) func(parquet.Value) {
	t := c.leaf.Type()
	if c.Kind == Number {
		return func(value parquet.Value) { v.Numbers = append(v.Numbers, number(t, value)) }
	}
	return func(value parquet.Value) {
		b := value.ByteArray()
		if value.IsNull() {
			b = nil
		} else if b == nil {
			b = []byte{}
		}
		v.Bytes = append(v.Bytes, b)
	}
}

func number(t parquet.Type, v parquet.Value) float64 {
	if v.IsNull() {
		return math.NaN()
	}
	if l := t.LogicalType(); l != nil {
		if d, ok := l.Value.(*format.DecimalType); ok {
			return unscaled(v) / math.Pow10(int(d.Scale))
		}
	}
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1
		}
		return 0
	case parquet.Int32:
		if unsigned(t) {
			return float64(v.Uint32())
		}
		return float64(v.Int32())
	case parquet.Int64:
		if unsigned(t) {
			return float64(v.Uint64())
		}
		return float64(v.Int64())
	case parquet.Float:
		return float64(v.Float())
	case parquet.Double:
		return v.Double()
	}
	return float64(float16.Decode(binary.LittleEndian.Uint16(v.ByteArray())))
}

// unscaled is the whole number that a decimal is kept as: bytes are those of its two's
// complement, the largest first.
func unscaled(v parquet.Value) (x float64) {
	switch v.Kind() {
	case parquet.Int32:
		return float64(v.Int32())
	case parquet.Int64:
		return float64(v.Int64())
	}
	for i, b := range v.ByteArray() {
		if i == 0 {
			x = float64(int8(b))
		} else {
			x = 256*x + float64(b)
		}
	}
	return x
}

func unsigned(t parquet.Type) bool {
	if l := t.LogicalType(); l != nil {
		i, ok := l.Value.(*format.IntType)
		return ok && !i.IsSigned
	}
	c := t.ConvertedType()
	return c != nil && *c >= deprecated.Uint8 && *c <= deprecated.Uint64
}
