package npy

import (
	"archive/zip"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/attach-uncertainty/attach/internal/regular"
	"github.com/attach-uncertainty/attach/rows"
)

// Lazy is an array in a file, of which only the header has been read. It holds
// no file open.
type Lazy struct {
	Header
	path   string
	source source
	entry  *zip.File // of the .npz, or nil
	offset int64     // of the elements in the file; -1 where they are deflated
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
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := fileSize(f)
	if err != nil {
		return nil, err
	}
	h, n, err := readHeader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := checkLength(h, size-n); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Lazy{Header: h, path: path, source: fileAt(path), offset: n}, nil
}

// checkLength compares the bytes that follow a header with what it promises.
func checkLength(h Header, have int64) error {
	if want := h.bytes(); have < want {
		return fmt.Errorf("%w: the header promises %d bytes of elements for shape %v, the file holds %d; it was cut short", ErrFormat, want, h.Shape, have)
	} else if have > want {
		return fmt.Errorf("%w: %d bytes follow the elements of shape %v", ErrFormat, have-want, h.Shape)
	}
	return nil
}

// Name says where the array is: its path, and its entry in an .npz.
func (l *Lazy) Name() string {
	if l.entry == nil {
		return l.path
	}
	return l.path + ": " + strings.TrimSuffix(l.entry.Name, ".npy")
}

// Read reads the whole array.
func (l *Lazy) Read() (rows.Array, error) {
	var a rows.Array
	err := l.whole(func(r io.Reader) (err error) {
		a, err = readBody(r, l.Header, l.bytes())
		return err
	})
	if err != nil {
		return rows.Array{}, err
	}
	return a, nil
}

// Float32s reads the whole array as float32, in C order: like Read and the
// function Float32s, but in the memory of the result and little more.
func (l *Lazy) Float32s() ([]float32, error) {
	var dst []float32
	err := l.whole(func(r io.Reader) error {
		dst = make([]float32, l.Len())
		// Both are used again for every chunk: what is left behind is not
		// collected before it is as large as the array.
		room := l.DType.newData(int(min(l.bytes(), chunk)) / l.DType.Size)
		part := make([]float32, min(l.bytes(), chunk)/int64(l.DType.Size))
		done, w := 0, newWalk(l.Shape)
		return l.chunks(r, func(raw []byte) error {
			data, err := l.DType.appendRaw(room, raw)
			if err != nil && done > 0 {
				return fmt.Errorf("counted from element %d: %w", done, err)
			}
			if err != nil {
				return err
			}
			n := toFloat32(part, data)
			if l.strided() {
				place(w, dst, part[:n])
			} else {
				copy(dst[done:], part[:n])
			}
			done += n
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// whole has all elements read, and none left over. Errors name the array.
func (l *Lazy) whole(read func(io.Reader) error) error {
	err := l.prove()
	if err != nil {
		return err
	}
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err = read(r); err == nil {
		err = atEnd(r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name(), err)
	}
	return nil
}

// prove inflates a large entry once without keeping it, so that memory is taken
// for elements that are there, all at once, and for no others.
func (l *Lazy) prove() error {
	if l.bytes() <= l.sure() {
		return nil
	}
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(io.Discard, r)
	if err == nil && n != l.bytes() {
		err = fmt.Errorf("%w: the entry ends early", ErrFormat)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name(), truncated(err, "the entry ends early"))
	}
	return nil
}

// sure is how many bytes of elements memory may be taken for unseen: all, where
// they are known to be there from the size of the file. A deflated entry's size
// is only what its archive says.
func (l *Lazy) sure() int64 {
	if l.offset >= 0 {
		return l.bytes()
	}
	return 64 * chunk
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
		err = fmt.Errorf("the file changed while it was read")
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
