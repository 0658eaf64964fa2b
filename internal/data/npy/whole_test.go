package npy

import (
	"io"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// ReadFile reads the .npy file at path.
func ReadFile(path string) (rows.Array, error) {
	l, err := OpenFile(path)
	if err != nil {
		return rows.Array{}, err
	}
	return l.Read()
}

// ReadNPZ reads every array of an archive of the given size in bytes.
func ReadNPZ(r io.ReaderAt, size int64) (map[string]rows.Array, error) {
	z, err := newNPZ("memory", inMemory(r), size)
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

func inMemory(r io.ReaderAt) opener {
	return func() (file, error) {
		return struct {
			io.ReaderAt
			io.Closer
		}{r, io.NopCloser(nil)}, nil
	}
}
