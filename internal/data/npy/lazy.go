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

// Lazy is an array in a file, of which only the header has been read. It holds
// no file open.
type Lazy struct {
	Header
	path   string
	source source
	entry  *zip.File // of the .npz, or nil
	offset int64     // of the elements in the file; -1 where they are deflated
	// sound is prove, once; nil of an .npy file. Elements read by their offset pass the
	// checksum by.
	sound func() error
}

// source opens a file that is not held open in between.
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

// OpenFile reads the header of the .npy file at path and checks that the file
// is as long as the header says. Errors name the path.
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

// Name says where the array is: its path, and its entry in an .npz.
func (l *Lazy) Name() string {
	if l.entry == nil {
		return l.path
	}
	return l.path + ": " + strings.TrimSuffix(l.entry.Name, ".npy")
}

// Read reads the whole array.
func (l *Lazy) Read() (rows.Array, error) { return l.read(nil) }

// Float32s reads the whole array as float32, in C order: like Read and the
// function Float32s, but in the memory of the result and little more.
func (l *Lazy) Float32s() ([]float32, error) {
	// It is used again for every part: what is left behind is not collected
	// before it is as large as the array.
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

// failed says which array could not be read and, of a damaged one, what to do.
func (l *Lazy) failed(err error) error {
	if errors.Is(err, zip.ErrChecksum) {
		err = fmt.Errorf("%w: it was damaged after it was written; copy or write the file again", err)
	}
	return fmt.Errorf("%s: %w", l.Name(), err)
}

// sure is how much memory is taken for elements before they are known to be
// there.
const sure = 64 * chunk

// prove reads an entry once without keeping it: the size of a deflated one is
// only what its archive says, and at the end the checksum is compared.
func (l *Lazy) prove() error {
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	return copyAll(io.Discard, r, l.bytes())
}

func copyAll(w io.Writer, r io.Reader, want int64) error {
	// io.Discard would ask for 8 KiB at a time, each of which opens the file.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, min(want+1, chunk)))
	if err == nil && n != want {
		err = io.ErrUnexpectedEOF
	}
	return truncated(err, "the entry ends early")
}

// atEnd reads on to the end of an entry, where archive/zip compares checksums.
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

// section is the part of a file that it closes.
type section struct {
	*io.SectionReader
	io.Closer
}
