package npy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Lazy is an array in a file of which only the header has been read. It keeps no file open.
type Lazy struct {
	Header
	path   string
	source source
	entry  *zip.File // entry of the .npz, or nil
	offset int64     // offset of the elements in the file; -1 if they are compressed
	// sound calls prove once; it is nil for an .npy file. Elements that are read by their
	// offset bypass the checksum.
	sound func() error
}

// source opens a file for each read, so that it is not held open.
type source func() (file, error)

type file interface {
	io.ReaderAt
	io.Closer
}

func fileAt(path string) source { return func() (file, error) { return os.Open(path) } }

// ReadAt implements io.ReaderAt.
func (s source) ReadAt(p []byte, off int64) (int, error) {
	f, err := s()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, off)
}

// OpenFile reads the header of the .npy file at path and checks the length of the file. Errors
// name the path.
func OpenFile(path string) (*Lazy, error) {
	f, size, err := openSized(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, n, err := readHeader(f)
	if err == nil {
		err = h.checkLength(size - n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Lazy{Header: h, path: path, source: fileAt(path), offset: n}, nil
}

func openSized(path string) (*os.File, int64, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// Name returns the path of the array and its entry in an .npz.
func (l *Lazy) Name() string {
	if l.entry == nil {
		return l.path
	}
	return l.path + ": " + strings.TrimSuffix(l.entry.Name, ".npy")
}

// Read reads the whole array.
func (l *Lazy) Read() (rows.Array, error) { return l.read(nil) }

// Float32s reads the whole array as float32, in C order. It equals Read and the function
// Float32s, but needs little more memory than the result.
func (l *Lazy) Float32s() ([]float32, error) {
	// It is reused for every part: garbage is not collected before it is as large as the
	// array.
	var room []float32
	a, err := l.read(func(part any) any {
		room = appendFloat32s(room[:0], part)
		return room
	})
	if err != nil {
		return nil, err
	}
	return a.Data.([]float32), nil
}

func (l *Lazy) read(keep func(part any) any) (rows.Array, error) {
	if l.offset < 0 && l.bytes() > sure {
		if err := l.sound(); err != nil {
			return rows.Array{}, l.failed(err)
		}
	}
	r, err := l.open()
	if err != nil {
		return rows.Array{}, err
	}
	defer r.Close()
	a, err := readBody(r, l.Header, l.elements(), keep)
	if err == nil {
		err = atEnd(r)
	}
	if err != nil {
		return rows.Array{}, l.failed(err)
	}
	return a, nil
}

// failed names the array that could not be read and, for a damaged one, what to do.
func (l *Lazy) failed(err error) error {
	if errors.Is(err, zip.ErrChecksum) {
		err = fmt.Errorf("%w: it was damaged after it was written; copy or write the file again", err)
	}
	return fmt.Errorf("%s: %w", l.Name(), err)
}

// sure is the amount of memory that is allocated for elements before they are known to exist.
const sure = 64 * chunk

// prove reads an entry once without keeping it: only the archive claims the size of a
// compressed entry, and the checksum is compared at the end.
func (l *Lazy) prove() error {
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	return copyAll(io.Discard, r, l.bytes())
}

func copyAll(w io.Writer, r io.Reader, want int64) error {
	// io.Discard would read 8 KiB at a time, and each read opens the file.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, min(want+1, chunk)))
	if err == nil && n != want {
		err = io.ErrUnexpectedEOF
	}
	return truncated(err, "the entry ends early")
}

// atEnd reads to the end of an entry, where archive/zip compares checksums.
func atEnd(r io.Reader) error {
	var one [1]byte
	n, err := r.Read(one[:])
	if n > 0 {
		return fmt.Errorf("%w: bytes follow the elements", ErrFormat)
	}
	if err == nil || err == io.EOF {
		return nil
	}
	return err
}

// open returns a reader of the elements.
func (l *Lazy) open() (io.ReadCloser, error) {
	if l.entry == nil {
		f, err := l.source()
		if err != nil {
			return nil, err
		}
		return section{io.NewSectionReader(f, l.offset, math.MaxInt64-l.offset), f}, nil
	}
	r, err := l.entry.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	h, _, err := readHeader(r)
	if err == nil && (h.DType != l.DType || h.Len() != l.Len()) {
		err = errors.New("the file changed while it was read")
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	return r, nil
}

// section is a part of a file, which it closes.
type section struct {
	*io.SectionReader
	io.Closer
}
