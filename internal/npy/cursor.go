package npy

import (
	"fmt"
	"io"
	"os"

	"github.com/attach-uncertainty/attach/rows"
)

// Cursor reads rows (runs along the first axis) of an array that stays on
// disk. It is not safe for concurrent use.
type Cursor struct {
	l    *Lazy
	f    file // elements at random, from offset base
	base int64
	temp string // name of the temporary file that f is, if it is one

	seq io.ReadCloser // deflated elements, in sequence
	pos int           // the next row that seq gives
}

// Open starts reading rows. Memory is bounded by what is asked for. Deflated
// arrays are read in sequence; going back in one, or reading one in Fortran
// order, first writes it to a temporary file, which Close removes.
func (l *Lazy) Open() (*Cursor, error) {
	c := &Cursor{l: l}
	var err error
	if l.offset >= 0 {
		c.f, err = l.source()
		c.base = l.offset
	} else {
		c.seq, err = l.open()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close releases the file.
func (c *Cursor) Close() error {
	var err error
	if c.seq != nil {
		err = c.seq.Close()
	}
	if c.f != nil {
		if ferr := c.f.Close(); err == nil {
			err = ferr
		}
	}
	if c.temp != "" {
		if rerr := os.Remove(c.temp); err == nil {
			err = rerr
		}
	}
	return err
}

// ReadRows reads n rows from row start on. The result's shape is the array's
// with n as its first axis. It panics if the rows are out of range.
func (c *Cursor) ReadRows(start, n int) (rows.Array, error) {
	if start < 0 || n < 0 || start > c.l.Rows()-n {
		panic("npy: rows out of range")
	}
	h := c.l.Header
	h.Shape = append([]int{n}, h.Shape[min(1, len(h.Shape)):]...)
	a, err := c.readRows(h, start, n)
	if err != nil {
		return rows.Array{}, fmt.Errorf("%s: %w", c.l.Name(), err)
	}
	return a, nil
}

func (c *Cursor) readRows(h Header, start, n int) (rows.Array, error) {
	if c.f == nil && (h.strided() || start < c.pos) {
		if err := c.spool(); err != nil {
			return rows.Array{}, err
		}
	}
	row := int64(h.RowLen()) * int64(h.DType.Size)
	switch {
	case h.strided():
		return c.readStrided(h, start, n)
	case c.f != nil:
		return readBody(io.NewSectionReader(c.f, c.base+int64(start)*row, int64(n)*row), h, int64(n)*row)
	}
	if _, err := io.CopyN(io.Discard, c.seq, int64(start-c.pos)*row); err != nil {
		return rows.Array{}, truncated(err, "the entry ends early")
	}
	c.pos = start + n
	a, err := readBody(c.seq, h, c.l.sure())
	if err == nil && c.pos == c.l.Rows() {
		err = atEnd(c.seq)
	}
	return a, err
}

// readStrided gathers rows of an array in Fortran order: each column's part is
// contiguous.
func (c *Cursor) readStrided(h Header, start, n int) (rows.Array, error) {
	size := int64(h.DType.Size)
	raw := make([]byte, int64(n)*size)
	data := h.DType.newData(h.Len())
	for j := range h.RowLen() {
		off := (int64(j)*int64(c.l.Rows()) + int64(start)) * size
		if _, err := c.f.ReadAt(raw, c.base+off); err != nil {
			return rows.Array{}, truncated(err, "the file ends early")
		}
		var err error
		if data, err = h.DType.appendRaw(data, raw); err != nil {
			return rows.Array{}, err
		}
	}
	return rows.Array{Shape: h.Shape, Data: toC(data, h.Shape)}, nil
}

// spool writes a deflated entry to a temporary file.
func (c *Cursor) spool() error {
	if c.pos > 0 {
		if err := c.seq.Close(); err != nil {
			return err
		}
		c.seq = nil
		seq, err := c.l.open()
		if err != nil {
			return err
		}
		c.seq, c.pos = seq, 0
	}
	f, err := os.CreateTemp("", "npy-*")
	if err != nil {
		return err
	}
	c.f, c.temp = f, f.Name()
	n, err := io.Copy(f, c.seq)
	if err == nil && n != c.l.bytes() {
		err = fmt.Errorf("%w: the entry ends early", ErrFormat)
	}
	return err
}
