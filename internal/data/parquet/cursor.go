package parquet

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
)

// Values holds cells of a column; the cells of lists follow one another.
type Values struct {
	Numbers []float64 // NaN for a missing number
	Bytes   [][]byte  // for texts and bytes; nil for a missing one
	// Lengths is the number of cells in each row, or nil for a column with one cell per row.
	Lengths []int
}

// Cursor reads rows of some columns. It is not safe for concurrent use.
type Cursor struct {
	path    string
	r       *reader
	streams []*stream
}

// Open starts reading the columns with these numbers, none of which may be of kind [Other].
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
		c.streams = append(c.streams, newStream(r, j))
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

// Read reads n rows from start on, for each column. Rows that follow those of the last call
// are read without a search. It panics if rows are out of range.
func (c *Cursor) Read(ctx context.Context, start, n int) ([]Values, error) {
	cells, _, err := c.read(ctx, start, n, math.MaxInt)
	return cells, err
}

// ReadSome is Read, but it may read fewer rows, at least one, if their cells are large. It
// also returns their number.
func (c *Cursor) ReadSome(ctx context.Context, start, n int) ([]Values, int, error) {
	return c.read(ctx, start, n, 1<<26)
}

// read stops after the row at which cells exceed the given number of bytes.
func (c *Cursor) read(ctx context.Context, start, n, enough int) (all []Values, read int, err error) {
	if start < 0 || n < 0 || start > c.r.rows-n {
		panic("parquet: rows out of range")
	}
	defer func() {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	defer guard(c.path, &err)
	all = make([]Values, len(c.streams))
	for k, s := range c.streams {
		if err := s.seek(ctx, start); err != nil {
			return nil, 0, err
		}
		switch room := max(min(n, 1<<12), s.last); s.of.Kind {
		case Number:
			all[k].Numbers = make([]float64, 0, room)
		default:
			all[k].Bytes = make([][]byte, 0, room)
		}
	}
	taken := 0
	for ; read < n && (taken < enough || read == 0); read++ {
		if read%1024 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		for k, s := range c.streams {
			size, err := s.row(&all[k])
			if err != nil {
				return nil, 0, err
			}
			taken += size
		}
	}
	for k, s := range c.streams {
		s.last = min(len(all[k].Numbers)+len(all[k].Bytes), 1<<20)
	}
	return all, read, nil
}

// Limits of cells in bytes and of lists in cells: the limit of a line in a text table, and the
// size of an encoded image in the largest page.
const (
	mostText  = 1 << 24
	mostBytes = mostOfPage
	mostList  = 1 << 24
)

// stream provides the values of one column, in order.
type stream struct {
	r      *reader
	column int
	of     *Column
	// Definition levels of an existing value, and of a list element that may be missing.
	full, element int
	at            int // next row
	group         int // row group of pages, -1 for none
	pages         *pages
	page          *page // nil before the first page
	// level is the repetition level of the next value, if known.
	level uint32
	known bool
	// passed tells that the row before the next one may continue in the next page.
	passed bool
	last   int // number of cells in the last read
}

func newStream(r *reader, column int) *stream {
	s := &stream{r: r, column: column, of: &r.columns[column], group: -1}
	s.full = s.of.leaf.MaxDefinitionLevel()
	if s.element = s.full; s.of.leaf.Optional() {
		s.element--
	}
	return s
}

func (s *stream) close() {
	if s.pages != nil {
		s.pages.close()
	}
	s.pages, s.page, s.known, s.passed = nil, nil, false, false
}

// enter goes to the beginning of a row group.
func (s *stream) enter(group int) (err error) {
	s.close()
	s.group, s.at = group, s.r.starts[group]
	s.pages, err = s.r.openPages(group, s.column)
	return err
}

// seek goes to a row. It skips pages before it without decoding them if their headers contain
// the number of rows.
func (s *stream) seek(ctx context.Context, row int) error {
	if s.group >= 0 && s.at == row {
		return nil
	}
	group, found := slices.BinarySearch(s.r.starts, row)
	if !found {
		group--
	}
	for group < len(s.r.groups)-1 && s.r.starts[group+1] == row { // skip groups without rows
		group++
	}
	if group >= len(s.r.groups) {
		s.close()
		s.group, s.at = len(s.r.groups), row
		return nil
	}
	if s.group != group || s.at > row {
		if err := s.enter(group); err != nil {
			return err
		}
	}
	for n := 0; s.at < row; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.page != nil && s.page.left > 0 {
			if _, err := s.row(nil); err != nil {
				return err
			}
			continue
		}
		h, err := s.pages.next()
		if err != nil || h == nil {
			return s.ends(err)
		}
		rows := s.pages.rows(h)
		if rows < 0 || rows > row-s.at {
			if s.page, err = s.pages.read(h); err != nil {
				return err
			}
			if rows >= 0 || s.page == nil {
				continue
			}
			if rows, err = s.page.repetition.zeros(s.page.left); err != nil {
				return err
			}
			if rows > row-s.at {
				continue
			}
			s.page = nil
		} else {
			s.pages.pass(h)
		}
		s.at += rows
		s.passed = s.of.List
	}
	return nil
}

// ends returns the error for a column with fewer rows than its file.
func (s *stream) ends(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("column %.100q ends at row %d: %w", s.of.Name, s.at, err)
}

// load goes to a page that has values left, and reports whether there is one.
func (s *stream) load() (bool, error) {
	for s.page == nil || s.page.left == 0 {
		h, err := s.pages.next()
		if err != nil || h == nil {
			return false, err
		}
		if s.page, err = s.pages.read(h); err != nil {
			return false, err
		}
	}
	return true, nil
}

// row appends the cells of the next row to those slices that are not nil, and returns the
// bytes that these need.
func (s *stream) row(to *Values) (size int, err error) {
	for s.at >= s.r.starts[s.group+1] {
		if err := s.enter(s.group + 1); err != nil {
			return 0, err
		}
	}
	count, empty := 0, 0
	first := true
	for first || s.of.List {
		more, err := s.load()
		if err == nil && more && s.of.List && !s.known {
			s.level, err = s.page.repetition.next()
			s.known = true
		}
		if err != nil || !more && first {
			return 0, s.ends(err)
		}
		if !first && (!more || s.level == 0) {
			break
		}
		if s.passed && s.level > 0 {
			if _, err := s.value(nil); err != nil {
				return 0, err
			}
			continue
		}
		s.passed, first = false, false
		n, err := s.value(to)
		if err != nil {
			return 0, fmt.Errorf("row %d of column %.100q: %w", s.at, s.of.Name, err)
		}
		if n > 0 {
			count++
		} else {
			empty++ // a nested list, which needs time but no memory
		}
		size += n
		// A run of elements tells how many follow.
		ahead := 0
		if levels := s.page.repetition; levels != nil && levels.packed == nil && levels.value > 0 {
			ahead = levels.left
		}
		if count+empty+ahead > mostList {
			return 0, &sizeError{s.of.Name, fmt.Sprintf("row %d is a list of more than %d cells, which are not read", s.at, mostList)}
		}
	}
	if to != nil && s.of.List {
		to.Lengths = append(to.Lengths, count)
	}
	s.at++
	return size, nil
}

// value appends the next value to those slices that are not nil, and returns the bytes that it
// needs: none if it represents a list without elements.
func (s *stream) value(to *Values) (size int, err error) {
	p, level := s.page, uint32(s.full)
	p.left--
	s.known = false
	if p.definition != nil {
		if level, err = p.definition.next(); err != nil {
			return 0, err
		}
	}
	if int(level) < s.full {
		switch {
		case s.of.List && int(level) < s.element:
			return 0, nil
		case to == nil:
		case s.of.Kind == Number:
			to.Numbers = append(to.Numbers, math.NaN())
		default:
			to.Bytes = append(to.Bytes, nil)
		}
		return 8, nil
	}
	i, err := p.next()
	switch {
	case err != nil:
		return 0, err
	case to == nil:
		return 8, nil
	case s.of.Kind == Number:
		to.Numbers = append(to.Numbers, p.number(i))
		return 8, nil
	}
	b := p.bytes(i)
	most := mostBytes
	if s.of.Kind == Text {
		most = mostText
	}
	if len(b) > most {
		return 0, &sizeError{s.of.Name, fmt.Sprintf("a cell has %d bytes, and at most %d are read", len(b), most)}
	}
	to.Bytes = append(to.Bytes, b)
	return len(b) + 24, nil
}
