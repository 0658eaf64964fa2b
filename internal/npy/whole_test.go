package npy

import (
	"io"
	"os"
	"path/filepath"

	"github.com/attach-uncertainty/attach/rows"
)

// Read reads one array of r, of whose length nothing is known.
func Read(r io.Reader) (rows.Array, error) { return ReadSure(r, 0) }

// ReadFile reads the .npy file at path.
func ReadFile(path string) (rows.Array, error) {
	l, err := OpenFile(path)
	if err != nil {
		return rows.Array{}, err
	}
	return l.Read()
}

// ReadNPZ reads every array of an archive of the given size in bytes, as a file.
func ReadNPZ(r io.ReaderAt, size int64) (map[string]rows.Array, error) {
	dir, err := os.MkdirTemp("", "npz")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "a.npz")
	b, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return nil, err
	}
	z, err := OpenNPZ(path)
	if err != nil {
		return nil, err
	}
	out := map[string]rows.Array{}
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		if err != nil {
			return nil, err
		}
		if out[name], err = l.Read(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
