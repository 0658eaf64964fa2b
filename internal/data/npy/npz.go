package npy

import (
	"archive/zip"
	"bufio"
	"cmp"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/attach-uncertainty/attach/internal/display"
)

// maxRatio is an upper bound for the compression ratio of deflate, because 258 bytes need
// at least two bits.
const maxRatio = 1032

// ErrNoEntry is wrapped by the error for an array that an archive does not contain.
var ErrNoEntry = errors.New("no such array")

// NPZ is an .npz file, an archive of named arrays. Only its directory has been read, and
// the file is not open.
type NPZ struct {
	path     string
	openFile opener
	files    map[string]*zip.File // by name without ".npy"
}

// OpenNPZ reads the directory of the .npz file at path. Errors name the path.
func OpenNPZ(path string) (*NPZ, error) {
	f, size, err := openSized(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return newNPZ(path, fileAt(path), size)
}

func newNPZ(path string, open opener, size int64) (*NPZ, error) {
	z, err := zip.NewReader(open, size)
	if err != nil {
		if errors.Is(err, zip.ErrFormat) {
			return nil, fmt.Errorf("%s: %w: it is no archive, or one cut short", path, ErrFormat)
		}
		return nil, fmt.Errorf("%s: %w: %v", path, ErrFormat, err)
	}
	// The buffer is large because the file is opened for every read.
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser {
		return flate.NewReader(bufio.NewReaderSize(r, 1<<16))
	})
	n := &NPZ{path: path, openFile: open, files: map[string]*zip.File{}}
	remaining := uint64(size)
	for _, f := range z.File {
		// If entries could overlap, a thousand entries could share the same bytes and need
		// a thousand times the memory.
		if f.CompressedSize64 > remaining {
			return nil, fmt.Errorf("%s: %w: its entries overlap", path, ErrFormat)
		}
		remaining -= f.CompressedSize64
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if ok && n.files[name] != nil {
			return nil, fmt.Errorf("%s: %w: two arrays are named %.60q", path, ErrFormat, name)
		} else if ok {
			n.files[name] = f
		}
	}
	return n, nil
}

// Names returns the sorted names of the arrays.
func (n *NPZ) Names() []string { return slices.Sorted(maps.Keys(n.files)) }

// Has reports whether the archive contains an array with that name.
func (n *NPZ) Has(name string) bool { return n.files[name] != nil }

// Entry reads the header of an array. If the array is missing, it returns an error that
// wraps ErrNoEntry and lists the existing names.
func (n *NPZ) Entry(name string) (*Lazy, error) {
	f := n.files[name]
	if f == nil {
		return nil, fmt.Errorf("%s: %w: %q; it holds %s", n.path, ErrNoEntry, name, quoted(n.Names()))
	}
	l := &Lazy{path: n.path, openFile: n.openFile, entry: f, offset: -1}
	l.verifyOnce = sync.OnceValue(l.verify)
	var start int64
	var err error
	if l.Header, start, err = entryHeader(f); err == nil && f.Method == zip.Store {
		var off int64
		if off, err = f.DataOffset(); err == nil {
			l.offset = off + start
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	return l, nil
}

func quoted(names []string) string {
	return cmp.Or(display.Quoted(names, 12), "no arrays")
}

// entryHeader reads the header of an entry. It also returns the length of the header in
// bytes. It returns an error if the entry does not have the size that the header requires,
// or if the compressed bytes cannot expand to that size.
func entryHeader(f *zip.File) (Header, int64, error) {
	switch {
	case f.Flags&1 != 0:
		return Header{}, 0, fmt.Errorf("%w: the entry is encrypted", ErrFormat)
	case f.Method == zip.Store && f.UncompressedSize64 != f.CompressedSize64,
		f.UncompressedSize64/maxRatio > f.CompressedSize64+1:
		return Header{}, 0, fmt.Errorf("%w: the entry's sizes contradict each other", ErrFormat)
	}
	r, err := f.Open()
	if err != nil {
		return Header{}, 0, err
	}
	defer r.Close()
	h, n, err := readHeader(r)
	if err != nil {
		return Header{}, 0, err
	}
	return h, n, h.checkLength(int64(f.UncompressedSize64) - n)
}
