package npy

import (
	"archive/zip"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/attach-uncertainty/attach/rows"
)

// WriteNPZ writes arrays as an .npz file that numpy.load opens, sorted by name
// and without the time of day: the same arrays give the same bytes. With
// deflate entries are compressed, as numpy.savez_compressed does.
func WriteNPZ(w io.Writer, arrays map[string]rows.Array, deflate bool) error {
	z := NewNPZWriter(w)
	if deflate {
		z.method = zip.Deflate
	}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		if err := z.Array(name, arrays[name]); err != nil {
			return err
		}
	}
	return z.Close()
}

// NPZWriter writes an .npz file entry by entry, for arrays larger than memory.
type NPZWriter struct {
	z      *zip.Writer
	method uint16
}

// NewNPZWriter begins a file whose entries are not compressed.
func NewNPZWriter(w io.Writer) *NPZWriter { return &NPZWriter{z: zip.NewWriter(w), method: zip.Store} }

func (w *NPZWriter) entry(name string) (io.Writer, error) {
	return w.z.CreateHeader(&zip.FileHeader{
		Name:     name + ".npy",
		Method:   w.method,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
	})
}

// Array writes an entry.
func (w *NPZWriter) Array(name string, a rows.Array) error {
	f, err := w.entry(name)
	if err != nil {
		return err
	}
	if err := Write(f, a); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Float32s begins an entry of float32 numbers, which ends with the next entry.
// The function returned takes its elements, row-major, in as many parts as one
// likes; their sum is what shape asks for.
func (w *NPZWriter) Float32s(name string, shape []int) (func(part []float32) error, error) {
	h := Header{Shape: shape}
	if err := h.checkSize(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d, err := descr([]float32(nil))
	if err != nil {
		return nil, err
	}
	f, err := w.entry(name)
	if err != nil {
		return nil, err
	}
	left := 1
	for _, s := range shape {
		left *= s
	}
	if _, err := f.Write(formatHeader(d, shape)); err != nil {
		return nil, err
	}
	return func(part []float32) error {
		if left -= len(part); left < 0 {
			return fmt.Errorf("%s: there are %d elements more than shape %v asks for", name, -left, shape)
		}
		return writeBody(f, part)
	}, nil
}

// Close ends the file. The writer below stays open.
func (w *NPZWriter) Close() error { return w.z.Close() }
