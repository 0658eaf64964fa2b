package npy

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Write writes a as a .npy file of version 1.0, in C order and little-endian. Equal arrays
// give equal bytes.
func Write(w io.Writer, a rows.Array) error {
	var descr string
	var n int
	var body func() error
	switch data := a.Data.(type) {
	case []float32:
		descr, n, body = "<f4", len(data), elementWriter(w, data)
	case []float64:
		descr, n, body = "<f8", len(data), elementWriter(w, data)
	case []int64:
		descr, n, body = "<i8", len(data), elementWriter(w, data)
	case []uint8:
		descr, n, body = "|u1", len(data), elementWriter(w, data)
	case []bool:
		descr, n, body = "|b1", len(data), elementWriter(w, data)
	default:
		return fmt.Errorf("elements of type %T cannot be written; want []float32, []float64, []int64, []uint8 or []bool", a.Data)
	}
	if err := (Header{Shape: a.Shape}).checkSize(); err != nil {
		return err
	}
	if n != rows.Elements(a.Shape) || slices.ContainsFunc(a.Shape, func(d int) bool { return d < 0 }) {
		return fmt.Errorf("shape %v does not fit the array's %d elements", a.Shape, n)
	}
	if _, err := w.Write(formatHeader(descr, a.Shape)); err != nil {
		return err
	}
	return body()
}

// elementWriter returns a function that writes data in little-endian order, in parts.
func elementWriter[T any](w io.Writer, data []T) func() error {
	return func() error {
		for part := range slices.Chunk(data, chunk/8) {
			if err := binary.Write(w, binary.LittleEndian, part); err != nil {
				return err
			}
		}
		return nil
	}
}

// WriteNPZ writes arrays as an .npz file, which numpy.load can open. Entries are sorted by
// name and have a fixed time, so equal arrays give equal bytes. With deflate, entries are
// compressed as by numpy.savez_compressed.
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

// NewNPZWriter starts a file with uncompressed entries.
func NewNPZWriter(w io.Writer) *NPZWriter { return &NPZWriter{z: zip.NewWriter(w), method: zip.Store} }

func (w *NPZWriter) entry(name string) (io.Writer, error) {
	return w.z.CreateHeader(&zip.FileHeader{
		Name:     name + ".npy",
		Method:   w.method,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
	})
}

// Array writes a as an entry.
func (w *NPZWriter) Array(name string, a rows.Array) error {
	f, err := w.entry(name)
	if err == nil {
		err = Write(f, a)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Float32s starts an entry of float32 numbers, which ends when the next entry starts. The
// returned function writes its elements, row-major, in any number of parts. All parts
// together must have exactly the number of elements of shape. The function returns an error
// for too many elements, but the caller must ensure that there are not too few.
func (w *NPZWriter) Float32s(name string, shape []int) (func(part []float32) error, error) {
	if err := (Header{Shape: shape}).checkSize(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := w.entry(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(formatHeader("<f4", shape)); err != nil {
		return nil, err
	}
	left := rows.Elements(shape)
	return func(part []float32) error {
		if left -= len(part); left < 0 {
			return fmt.Errorf("%s: there are %d elements more than shape %v asks for", name, -left, shape)
		}
		return elementWriter(f, part)()
	}, nil
}

// Close completes the archive. The underlying writer stays open.
func (w *NPZWriter) Close() error { return w.z.Close() }
