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

// Lazy is an array in a file. Only its header has been read, and the file is not open.
type Lazy struct {
	Header
	path     string
	openFile opener
	entry    *zip.File // entry of the .npz, or nil
	offset   int64     // offset of the elements in the file; -1 if they are compressed
	// verifyOnce runs verify on the first call. It is nil for an .npy file. It is needed
	// before elements are read by their offset, because archive/zip then does not compare
	// their checksum. It is also needed before more than maxUnverified bytes are allocated.
	verifyOnce func() error
}

// opener opens a file. Readers call it when they need the file, so that the file does not
// stay open.
type opener func() (file, error)

type file interface {
	io.ReaderAt
	io.Closer
}

func fileAt(path string) opener { return func() (file, error) { return os.Open(path) } }

// ReadAt opens the file for one read.
func (s opener) ReadAt(p []byte, off int64) (int, error) {
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
	return &Lazy{Header: h, path: path, openFile: fileAt(path), offset: n}, nil
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

// Name returns the path of the file and, for an .npz file, the name of the array.
func (l *Lazy) Name() string {
	if l.entry == nil {
		return l.path
	}
	return l.path + ": " + strings.TrimSuffix(l.entry.Name, ".npy")
}

// Read reads the whole array.
func (l *Lazy) Read() (rows.Array, error) { return l.read(nil) }

// IsText reports whether the array holds texts, which only Texts reads.
func (l *Lazy) IsText() bool { return l.DType.text() }

// Texts reads the whole array of texts, in C order.
func (l *Lazy) Texts() ([]string, error) {
	a, err := l.readElements(&elementReader{decode: l.DType.texts()}, nil)
	if err != nil {
		return nil, err
	}
	texts, _ := a.Data.([]string)
	return texts, nil
}

// Float32s reads the whole array as float32, in C order. The result is the same as that of
// the function Float32s for the array that Read returns, but the method needs little
// additional memory.
func (l *Lazy) Float32s() ([]float32, error) {
	// The buffer is reused for every part. Otherwise garbage as large as the array could
	// accumulate before it is collected.
	var buffer []float32
	a, err := l.read(func(part any) any {
		buffer = appendFloat32s(buffer[:0], part)
		return buffer
	})
	if err != nil {
		return nil, err
	}
	return a.Data.([]float32), nil
}

func (l *Lazy) read(convert func(part any) any) (rows.Array, error) {
	return l.readElements(l.elements(), convert)
}

func (l *Lazy) readElements(e *elementReader, convert func(part any) any) (rows.Array, error) {
	if l.offset < 0 && l.bytes() > maxUnverified {
		if err := l.verifyOnce(); err != nil {
			return rows.Array{}, l.readError(err)
		}
	}
	r, err := l.open()
	if err != nil {
		return rows.Array{}, err
	}
	defer r.Close()
	a, err := readBody(r, l.Header, e, convert)
	if err == nil {
		err = checkEnd(r)
	}
	if err != nil {
		return rows.Array{}, l.readError(err)
	}
	return a, nil
}

// readError adds the name of the array to err. For a damaged file, it also adds advice.
func (l *Lazy) readError(err error) error {
	if errors.Is(err, zip.ErrChecksum) {
		err = fmt.Errorf("%w: it was damaged after it was written; copy or write the file again", err)
	}
	return fmt.Errorf("%s: %w", l.Name(), err)
}

// maxUnverified is the largest number of bytes that may be allocated before the elements
// are known to exist.
const maxUnverified = 64 * chunk

// verify reads an entry once without keeping it. An archive can claim any size for a
// compressed entry, and the checksum is only compared at the end.
func (l *Lazy) verify() error {
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	return copyAll(io.Discard, r, l.bytes())
}

func copyAll(w io.Writer, r io.Reader, want int64) error {
	// The buffer is large because each read opens the file. io.Discard would read 8 KiB at
	// a time.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, min(want+1, chunk)))
	if err == nil && n != want {
		err = io.ErrUnexpectedEOF
	}
	return truncated(err, "the entry ends early")
}

// checkEnd returns an error if elements are followed by more bytes. At the end of an entry,
// archive/zip compares the checksum.
func checkEnd(r io.Reader) error {
	var extra [1]byte
	n, err := r.Read(extra[:])
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
		f, err := l.openFile()
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

// section reads a part of a file, and closes the file.
type section struct {
	*io.SectionReader
	io.Closer
}
