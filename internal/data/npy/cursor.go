package npy

import (
	"errors"
	"io"
	"os"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Cursor reads rows (slices along the first axis) of an array that stays on disk. It is not
// safe for concurrent use.
type Cursor struct {
	l    *Lazy
	f    file // random access to the elements, which begin at base; nil while seq is read
	base int64
	temp string // name of f if it is a temporary file

	seq io.ReadCloser // sequential access to the elements of a compressed array
	pos int           // next row of seq

	elements *elementReader
}

// Open starts reading rows. The cursor keeps only the rows of one read in memory. A
// compressed array is read in sequence. To go back in such an array, or if it is in Fortran
// order, the cursor first writes the array to a temporary file. Close removes this file.
func (l *Lazy) Open() (*Cursor, error) {
	if l.verifyOnce != nil && l.offset >= 0 {
		if err := l.verifyOnce(); err != nil {
			return nil, l.readError(err)
		}
	}
	c := &Cursor{l: l, elements: l.elements()}
	var err error
	if l.offset >= 0 {
		c.f, err = l.openFile()
		c.base = l.offset
	} else {
		c.seq, err = l.open()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the file and removes the temporary file, if there is one.
func (c *Cursor) Close() error {
	var errs []error
	if c.seq != nil {
		errs = append(errs, c.seq.Close())
	}
	if c.f != nil {
		errs = append(errs, c.f.Close())
	}
	if c.temp != "" {
		errs = append(errs, os.Remove(c.temp))
	}
	return errors.Join(errs...)
}

// ReadRows reads n rows, beginning with row start. The result has the shape of the array,
// except that its first axis has length n. ReadRows panics if the rows are out of range.
func (c *Cursor) ReadRows(start, n int) (rows.Array, error) {
	if start < 0 || n < 0 || start > c.l.Rows()-n {
		panic("npy: rows out of range")
	}
	h := c.l.Header
	h.Shape = append([]int{n}, h.Shape[min(1, len(h.Shape)):]...)
	a, err := c.readRows(h, start, n)
	if err != nil {
		return rows.Array{}, c.l.readError(err)
	}
	return a, nil
}

func (c *Cursor) readRows(h Header, start, n int) (rows.Array, error) {
	if c.f == nil && (h.strided() || start < c.pos) {
		if err := c.spool(); err != nil {
			return rows.Array{}, err
		}
	}
	size := int64(h.DType.Size)
	row := int64(h.RowLen()) * size
	switch {
	case h.strided():
		all := int64(c.l.Rows()) * size
		return readBody(&columns{ReaderAt: c.f, at: c.base + int64(start)*size, run: int64(n) * size, step: all}, h, c.elements, nil)
	case c.f != nil:
		return readBody(io.NewSectionReader(c.f, c.base+int64(start)*row, int64(n)*row), h, c.elements, nil)
	}
	if int64(n)*row > maxUnverified {
		if err := c.l.verifyOnce(); err != nil {
			return rows.Array{}, err
		}
	}
	if _, err := io.CopyN(io.Discard, c.seq, int64(start-c.pos)*row); err != nil {
		return rows.Array{}, truncated(err, "the entry ends early")
	}
	c.pos = start + n
	a, err := readBody(c.seq, h, c.elements, nil)
	if err == nil && c.pos == c.l.Rows() {
		err = checkEnd(c.seq)
	}
	return a, err
}

// columns reads some rows of an array in Fortran order. In each column, these rows are
// stored together.
type columns struct {
	io.ReaderAt
	at   int64 // offset of the rows in the current column
	run  int64 // number of bytes of the rows in one column
	step int64 // number of bytes between the beginnings of two columns
	done int64 // bytes read in the current column
}

func (c *columns) Read(p []byte) (int, error) {
	n, err := c.ReadAt(p[:min(int64(len(p)), c.run-c.done)], c.at+c.done)
	if c.done += int64(n); c.done == c.run {
		c.at, c.done = c.at+c.step, 0
	}
	return n, err
}

// spool writes a compressed array to a temporary file, for random access.
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
	return copyAll(f, c.seq, c.l.bytes())
}
