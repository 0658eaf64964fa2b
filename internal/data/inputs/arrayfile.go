package inputs

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// arrayFile provides named arrays. They are the arrays of an .npz archive, the columns of a
// Parquet file, or the single array of an .npy file, which gets the name features.
type arrayFile interface {
	Names() []string
	Has(name string) bool
	entry(name string) (array, error)
}

// array provides rows of numbers. Its file is open only while a cursor reads it.
type array interface {
	Name() string // path of the file and, if it has several arrays, the name of the array
	shape() []int // number of rows, followed by the shape of a row
	open() (cursor, error)
	capacity() int // largest number of elements to allocate memory for before they are read
}

type cursor interface {
	ReadRows(start, n int) (rows.Array, error)
	io.Closer
}

func openArrays(path string) (arrayFile, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npy":
		l, err := npy.OpenFile(path)
		return npyFile{npyArray{l}}, err
	case ".parquet":
		f, err := parquet.Open(path)
		return parquetArrays{f}, err
	}
	z, err := npy.OpenNPZ(path)
	return npzFile{z}, err
}

// floats reads rows first to last−1 of a.
func floats(a array, first, last int) ([]float32, error) {
	if whole, ok := a.(npyArray); ok && last-first == whole.Rows() {
		return whole.Float32s()
	}
	c, err := a.open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	width := max(1, rows.Elements(a.shape()[1:]))
	all := make([]float32, 0, min((last-first)*width, a.capacity()))
	block := max(1, (1<<18)/width)
	for start := first; start < last; start += block {
		part, err := c.ReadRows(start, min(block, last-start))
		if err != nil {
			return nil, err
		}
		all = append(all, npy.Float32s(part)...)
	}
	return all, nil
}

// HoldsAny reports whether the file at path contains at least one of the named arrays.
func HoldsAny(path string, names ...string) bool {
	f, err := openArrays(path)
	return err == nil && slices.ContainsFunc(names, f.Has)
}

type npzFile struct{ *npy.NPZ }

func (z npzFile) entry(name string) (array, error) {
	l, err := z.Entry(name)
	return npyArray{l}, err
}

type npyFile struct{ npyArray }

func (f npyFile) Names() []string { return []string{"features"} }

func (f npyFile) Has(name string) bool { return name == "features" }

func (f npyFile) entry(string) (array, error) { return f.npyArray, nil }

type npyArray struct{ *npy.Lazy }

func (a npyArray) shape() []int { return a.Shape }

func (a npyArray) open() (cursor, error) { return a.Open() }

// capacity returns the number of all elements, because the package npy has compared it with
// the size of the file.
func (a npyArray) capacity() int { return a.Len() }

type parquetArrays struct{ *parquet.File }

func (f parquetArrays) Has(name string) bool { return slices.Contains(f.Names(), name) }

func (f parquetArrays) entry(name string) (array, error) {
	j := slices.Index(f.Names(), name)
	if j < 0 {
		return nil, fmt.Errorf("%s: there is no column %q; its columns are %s", f.Path(), name, display.List(f.Names(), 10))
	}
	a := &parquetArray{f.File, f.Path() + ": " + name, j, []int{f.Rows()}}
	switch column := f.Columns()[j]; {
	case column.Kind != parquet.Number:
		return nil, fmt.Errorf("%s: the column holds no numbers", a.name)
	case column.List && f.Rows() == 0:
		a.size = append(a.size, 1)
	case column.List:
		width, err := firstLength(f.File, j)
		if err != nil {
			return nil, err
		}
		if a.size = append(a.size, width); width > max(maxNumbers, maxPerByte*f.Size())/f.Rows() {
			return nil, fmt.Errorf("%s: its shape %v is too large for a file of %d bytes", a.name, a.size, f.Size())
		}
	}
	return a, nil
}

// A column of more than maxNumbers numbers must have a byte in the file for every
// maxPerByte numbers. Otherwise a small file of equal numbers could fill the memory.
const (
	maxNumbers = 1 << 28
	maxPerByte = 64
)

// parquetArray is a column of numbers, or of lists that are all as long as the first list.
type parquetArray struct {
	*parquet.File
	name   string
	column int
	size   []int
}

func (a *parquetArray) Name() string { return a.name }

func (a *parquetArray) shape() []int { return a.size }

func (a *parquetArray) open() (cursor, error) {
	c, err := a.Open(a.column)
	return parquetCursor{c, a}, err
}

// capacity depends on the size of the file, because a damaged file can claim rows that it
// does not have.
func (a *parquetArray) capacity() int { return 16 * a.Size() }

type parquetCursor struct {
	*parquet.Cursor
	array *parquetArray
}

func (c parquetCursor) ReadRows(start, n int) (rows.Array, error) {
	cells, err := c.Read(context.Background(), start, n)
	if err != nil {
		return rows.Array{}, err
	}
	v, inner := cells[0], c.array.size[1:]
	for i, length := range v.Lengths {
		if len(inner) > 0 && length != inner[0] {
			return rows.Array{}, fmt.Errorf("%s: row %d is a list of %s, but the first row has %d", c.array.name, start+i, rows.Count(length, "number"), inner[0])
		}
	}
	return rows.Array{Shape: append([]int{n}, inner...), Data: v.Numbers}, nil
}
