package npy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/regular"
)

// maxRatio is an upper bound on how much deflate can shrink: 258 bytes cost at
// least two bits.
const maxRatio = 1032

// ErrNoEntry is wrapped by the error of asking an archive for an array that it
// does not hold.
var ErrNoEntry = errors.New("no such array")

// NPZ is an .npz file: arrays by name. Only its directory has been read, and
// it holds no file open.
type NPZ struct {
	path  string
	names []string
}

// OpenNPZ reads the directory of the .npz file at path. Errors name the path.
func OpenNPZ(path string) (*NPZ, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := fileSize(f)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %v", path, ErrFormat, err)
	}
	names, err := entryNames(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &NPZ{path: path, names: names}, nil
}

// entryNames returns the names of a zip's arrays, sorted, without ".npy".
func entryNames(z *zip.Reader) ([]string, error) {
	names := make([]string, 0, len(z.File))
	for _, f := range z.File {
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return nil, fmt.Errorf("%w: two arrays are named %.60q", ErrFormat, names[i])
		}
	}
	return names, nil
}

// Names returns the arrays' names, sorted.
func (n *NPZ) Names() []string { return slices.Clone(n.names) }

// Has reports whether an array of that name is there.
func (n *NPZ) Has(name string) bool {
	_, ok := slices.BinarySearch(n.names, name)
	return ok
}

// Entry reads the header of an array. A missing one is an error that wraps
// ErrNoEntry and lists those that are there.
func (n *NPZ) Entry(name string) (*Lazy, error) {
	if !n.Has(name) {
		return nil, fmt.Errorf("%s: %w: %q; it holds %s", n.path, ErrNoEntry, name, quoted(n.names))
	}
	z, err := zip.OpenReader(n.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.path, err)
	}
	defer z.Close()
	l := &Lazy{path: n.path, entry: name, offset: -1}
	f, err := findEntry(&z.Reader, name)
	if err == nil {
		var start int64
		if l.Header, start, err = entryHeader(f); err == nil && f.Method == zip.Store {
			var off int64
			if off, err = f.DataOffset(); err == nil {
				l.offset = off + start
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	return l, nil
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "no arrays"
	}
	const most = 12
	out := make([]string, 0, most+1)
	for i, n := range names {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		out = append(out, fmt.Sprintf("%.60q", n))
	}
	return strings.Join(out, ", ")
}

func findEntry(z *zip.Reader, name string) (*zip.File, error) {
	for _, f := range z.File {
		if f.Name == name+".npy" {
			return f, nil
		}
	}
	return nil, fmt.Errorf("%w: %.60q", ErrNoEntry, name)
}

// entryHeader reads an entry's header and checks it against the entry's size,
// and that size against what its compressed bytes can hold.
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
	return h, n, checkLength(h, int64(f.UncompressedSize64)-n)
}

func openEntry(z *zip.Reader, name string) (io.ReadCloser, error) {
	f, err := findEntry(z, name)
	if err != nil {
		return nil, err
	}
	if _, _, err := entryHeader(f); err != nil {
		return nil, err
	}
	return f.Open()
}
