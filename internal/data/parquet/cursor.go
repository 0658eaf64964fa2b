package parquet

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
)

// Values holds cells of one column. The cells of lists are stored one after another.
type Values struct {
	Numbers []float64 // NaN for a missing number
	Bytes   [][]byte  // texts or bytes; nil for a missing one
	// Lengths is the number of cells in each row, or nil for a column with one cell per row.
	Lengths []int
}

// Cursor reads rows of some columns. It is not safe for concurrent use.
type Cursor struct {
	path    string
	r       *reader
	streams []*stream
}

// Open starts reading the columns with the given indices. A column must not be of kind
// [Other].
func (f *File) Open(columns ...int) (*Cursor, error) {
	return OpenCursor(f.path, f.rows, len(f.columns), columns...)
}

// OpenCursor is like [File.Open] for a file that was read before, when it had these numbers of
// rows and columns. It reads the footer once, and Open followed by File.Open reads it twice.
func OpenCursor(path string, rows, count int, columns ...int) (*Cursor, error) {
	r, err := openReader(path)
	if err != nil {
		return nil, err
	}
	if r.rows != rows || len(r.columns) != count {
		r.Close()
		return nil, fmt.Errorf("%s: the file changed while it was read", path)
	}
	c := &Cursor{path: path, r: r}
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

// Read reads n rows of each column, beginning with row start. It is fast if start follows
// the rows of the previous call. Read panics if the rows are out of range.
func (c *Cursor) Read(ctx context.Context, start, n int) ([]Values, error) {
	cells, _, err := c.read(ctx, start, n, math.MaxInt)
	return cells, err
}

// ReadSome is like Read, but may stop before n rows, after at least one, if the cells are
// large. It also returns the number of rows that were read.
func (c *Cursor) ReadSome(ctx context.Context, start, n int) ([]Values, int, error) {
	return c.read(ctx, start, n, 1<<26)
}

// read reads up to n rows. It stops earlier, but after at least one row, when the cells
// need budget bytes of memory.
func (c *Cursor) read(ctx context.Context, start, n, budget int) (all []Values, read int, err error) {
	if start < 0 || n < 0 || start > c.r.rows-n {
		panic("parquet: rows out of range")
	}
	defer func() {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	defer recoverError(c.path, &err)
	all = make([]Values, len(c.streams))
	for k, s := range c.streams {
		if err := s.seek(ctx, start); err != nil {
			return nil, 0, err
		}
		switch room := max(min(n, 1<<12), s.lastCount); s.column.Kind {
		case Number:
			all[k].Numbers = make([]float64, 0, room)
		default:
			all[k].Bytes = make([][]byte, 0, room)
		}
	}
	used := 0
	for ; read < n && (used < budget || read == 0); read++ {
		if read%1024 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		for k, s := range c.streams {
			size, err := s.row(&all[k])
			if err != nil {
				return nil, 0, err
			}
			used += size
		}
	}
	for k, s := range c.streams {
		s.lastCount = min(len(all[k].Numbers)+len(all[k].Bytes), 1<<20)
	}
	return all, read, nil
}

// Limits for cells, because damaged files can claim any size. maxText is also the limit for
// a record of a text table. maxBytes allows an encoded image that fills the largest page.
const (
	maxText  = 1 << 24
	maxBytes = maxPage
	maxList  = 1 << 24
)

// stream provides the values of one column, in order.
type stream struct {
	r      *reader
	index  int
	column *Column
	// full is the definition level of a present value. element is the lowest definition
	// level of a list element, which may be missing itself.
	full, element int
	at            int // next row
	group         int // row group that pages belongs to, -1 for none
	pages         *pages
	page          *page // nil before the first page
	// level is the repetition level of the next value, if levelKnown is true.
	level      uint32
	levelKnown bool
	// afterSkip is true after a page was skipped. The last row of that page may continue in
	// the next page.
	afterSkip bool
	lastCount int // number of cells in the previous read, to allocate as many for the next one
}

func newStream(r *reader, index int) *stream {
	s := &stream{r: r, index: index, column: &r.columns[index], group: -1}
	s.full = s.column.leaf.MaxDefinitionLevel()
	if s.element = s.full; s.column.leaf.Optional() {
		s.element--
	}
	return s
}

func (s *stream) close() {
	if s.pages != nil {
		s.pages.close()
	}
	s.pages, s.page, s.levelKnown, s.afterSkip = nil, nil, false, false
}

// enterGroup moves to the beginning of a row group.
func (s *stream) enterGroup(group int) (err error) {
	s.close()
	s.group, s.at = group, s.r.starts[group]
	s.pages, err = s.r.openPages(group, s.index)
	return err
}

// seek moves to a row. It skips earlier pages without decoding them if their headers
// contain the number of rows.
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
		if err := s.enterGroup(group); err != nil {
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
			return s.endError(err)
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
			s.pages.skip(h)
		}
		s.at += rows
		s.afterSkip = s.column.List
	}
	return nil
}

// endError returns an error for a column that has fewer rows than the file.
func (s *stream) endError(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("column %.100q ends at row %d: %w", s.column.Name, s.at, err)
}

// load moves to a page with remaining values. It reports whether there is one.
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

// row appends the cells of the next row to dst, or skips them if dst is nil. It returns the
// memory that the cells need, in bytes.
func (s *stream) row(dst *Values) (size int, err error) {
	for s.at >= s.r.starts[s.group+1] {
		if err := s.enterGroup(s.group + 1); err != nil {
			return 0, err
		}
	}
	count, empty := 0, 0
	first := true
	for first || s.column.List {
		more, err := s.load()
		if err == nil && more && s.column.List && !s.levelKnown {
			s.level, err = s.page.repetition.next()
			s.levelKnown = true
		}
		if err != nil || !more && first {
			return 0, s.endError(err)
		}
		if !first && (!more || s.level == 0) {
			break
		}
		if s.afterSkip && s.level > 0 {
			if _, err := s.value(nil); err != nil {
				return 0, err
			}
			continue
		}
		s.afterSkip, first = false, false
		n, err := s.value(dst)
		if err != nil {
			return 0, fmt.Errorf("row %d of column %.100q: %w", s.at, s.column.Name, err)
		}
		if n > 0 {
			count++
		} else {
			empty++ // an empty or missing list, which takes time but no memory
		}
		size += n
		// If the next levels are a run of list elements, the row has at least that many
		// more cells.
		ahead := 0
		if levels := s.page.repetition; levels != nil && levels.packed == nil && levels.value > 0 {
			ahead = levels.left
		}
		if count+empty+ahead > maxList {
			return 0, &sizeError{s.column.Name, fmt.Sprintf("row %d is a list of more than %d cells, which are not read", s.at, maxList)}
		}
	}
	if dst != nil && s.column.List {
		dst.Lengths = append(dst.Lengths, count)
	}
	s.at++
	return size, nil
}

// value appends the next value to dst, or skips it if dst is nil. It returns the memory
// that the value needs, in bytes, which is 0 for a list without elements.
func (s *stream) value(dst *Values) (size int, err error) {
	p, level := s.page, uint32(s.full)
	p.left--
	s.levelKnown = false
	if p.definition != nil {
		if level, err = p.definition.next(); err != nil {
			return 0, err
		}
	}
	if int(level) < s.full {
		switch {
		case s.column.List && int(level) < s.element:
			return 0, nil
		case dst == nil:
		case s.column.Kind == Number:
			dst.Numbers = append(dst.Numbers, math.NaN())
		default:
			dst.Bytes = append(dst.Bytes, nil)
		}
		return 8, nil
	}
	i, err := p.next()
	switch {
	case err != nil:
		return 0, err
	case dst == nil:
		return 8, nil
	case s.column.Kind == Number:
		dst.Numbers = append(dst.Numbers, p.number(i))
		return 8, nil
	}
	b := p.bytes(i)
	limit := maxBytes
	if s.column.Kind == Text {
		limit = maxText
	}
	if len(b) > limit {
		return 0, &sizeError{s.column.Name, fmt.Sprintf("a cell has %d bytes, and at most %d are read", len(b), limit)}
	}
	dst.Bytes = append(dst.Bytes, b)
	return len(b) + 24, nil
}
