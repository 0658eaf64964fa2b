package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// ErrFormat is wrapped by the error for a file that is not a Parquet file, or is damaged.
var ErrFormat = errors.New("not a Parquet file, or cut short or damaged")

// Kind is the type of the cells of a column.
type Kind uint8

// Kinds of cells. Other includes dates and times, which cannot be read.
const (
	Other Kind = iota
	Number
	Text
	Bytes
)

// Column is a column of a file, or a field of a column of structs.
type Column struct {
	// Name is the name of the column. The name of a struct's field includes the struct's
	// name and a dot, for example image.bytes.
	Name string
	Kind Kind
	// List reports whether a row has a list of cells. Nested lists are read as one list.
	List bool
	// Empty reports whether all rows lack a value, according to the statistics in the file.
	Empty bool
	leaf  *parquet.Column
}

// Is reports whether the column has the type of node and exactly one value in each row.
func (c Column) Is(node parquet.Node) bool {
	return c.leaf.Required() && c.leaf.Type().String() == node.Type().String()
}

// File is a Parquet file whose footer has been read. The file itself is not open.
type File struct {
	path    string
	size    int
	rows    int
	columns []Column
	meta    []format.KeyValue
}

// Open reads the footer of the file at path. Errors name the path. Two columns with the same
// name are an error, because columns are found by their names.
func Open(path string) (f *File, err error) {
	r, err := openReader(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	seen := make(map[string]bool, len(r.columns))
	for _, c := range r.columns {
		if seen[c.Name] {
			return nil, fmt.Errorf("%s: two columns are named %.100q; rename one", path, c.Name)
		}
		seen[c.Name] = true
	}
	f = &File{path: path, size: r.size, rows: r.rows, columns: r.columns, meta: r.meta.KeyValueMetadata}
	return f, nil
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Size returns the size of the file in bytes.
func (f *File) Size() int { return f.size }

// Rows returns the number of rows.
func (f *File) Rows() int { return f.rows }

// Columns returns the columns in their order.
func (f *File) Columns() []Column { return f.columns }

// Names returns the names of the columns in their order.
func (f *File) Names() (list []string) {
	for _, c := range f.columns {
		list = append(list, c.Name)
	}
	return list
}

// Metadata returns the file metadata under a key, such as "huggingface".
func (f *File) Metadata(key string) (string, bool) {
	for _, m := range f.meta {
		if m.Key == key {
			return m.Value, true
		}
	}
	return "", false
}

// reader is an open Parquet file.
type reader struct {
	io.ReaderAt
	io.Closer
	meta     *format.FileMetaData
	groups   []format.RowGroup
	starts   []int // first row of each group, followed by the total number of rows
	rows     int
	size     int
	columns  []Column
	reserved int // bytes of memory reserved for pages
}

// recoverError adds the path to an error and, unless it is a sizeError, ErrFormat. It also
// turns a panic into an error, because parquet-go panics on some damaged files.
func recoverError(path string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%v", p)
	}
	if size, ok := errors.AsType[*sizeError](*err); ok {
		*err = fmt.Errorf("%s: %w", path, size)
	} else if *err != nil {
		*err = fmt.Errorf("%s: %w (%.200s)", path, ErrFormat, strings.ReplaceAll((*err).Error(), "\n", " "))
	}
}

func openReader(path string) (*reader, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	r, err := newReader(f, info.Size(), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.Closer = f
	return r, nil
}

// A file with more than maxRows rows must have a byte for every maxRowsPerByte rows.
// Otherwise a tiny file could claim so many rows that data kept for each row, such as its
// target, fills the memory.
const (
	maxRows        = 1 << 24
	maxRowsPerByte = 64
)

func newReader(f io.ReaderAt, size int64, path string) (r *reader, err error) {
	defer recoverError(path, &err)
	var end [8]byte
	if size < 12 {
		return nil, fmt.Errorf("%d bytes", size)
	}
	if _, err := f.ReadAt(end[:], size-8); err != nil {
		return nil, err
	}
	// The length is checked here, because the library allocates memory for the whole footer
	// before it reads it.
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != "PAR1" || n > size-12 {
		return nil, errors.New("no footer at its end")
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-8-n); err != nil {
		return nil, err
	}
	if err := checkFooter(footer); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	r = &reader{ReaderAt: f, meta: file.Metadata(), size: int(size)}
	r.groups = r.meta.RowGroups
	all := int64(0)
	for _, g := range r.groups {
		r.starts = append(r.starts, int(all))
		n := g.NumRows
		if n < 0 || n > math.MaxInt32-all && all+n > math.MaxInt32*1024 {
			return nil, fmt.Errorf("a group of %d rows", n)
		}
		all += n
	}
	if all > maxRows && all > maxRowsPerByte*size {
		return nil, fmt.Errorf("%d rows in %d bytes", all, size)
	}
	if all != file.NumRows() {
		return nil, fmt.Errorf("%d rows in its groups and %d in all", all, file.NumRows())
	}
	r.rows = int(all)
	r.starts = append(r.starts, r.rows)
	if r.columns, err = leaves(nil, file.Root()); err != nil {
		return nil, err
	}
	for _, g := range r.groups {
		if len(g.Columns) != len(r.columns) {
			return nil, fmt.Errorf("a group of %d columns, where the file has %d", len(g.Columns), len(r.columns))
		}
	}
	for j := range r.columns {
		r.columns[j].Empty = r.empty(j)
	}
	return r, nil
}

// empty reports whether all rows of a column lack a value, according to the statistics in
// the file.
func (r *reader) empty(column int) bool {
	for _, g := range r.groups {
		if c := &g.Columns[column].MetaData; c.Statistics.NullCount != c.NumValues {
			return false
		}
	}
	return r.rows > 0
}

// leaves appends the leaf columns below node to all.
func leaves(all []Column, node *parquet.Column) ([]Column, error) {
	if len(all) > maxColumns {
		return nil, errors.New("there are too many columns")
	}
	if node.Leaf() {
		list := node.MaxRepetitionLevel() > 0
		return append(all, Column{Name: nameOf(node, list), Kind: kindOf(node.Type()), List: list, leaf: node}), nil
	}
	var err error
	for _, c := range node.Columns() {
		if all, err = leaves(all, c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Dates reports whether the cells are dates or times. Such a column has the kind Other.
func (c Column) Dates() bool {
	t := c.leaf.Type()
	if l := t.LogicalType(); l != nil && l.Value != nil {
		switch l.Value.(type) {
		case *format.DateType, *format.TimeType, *format.TimestampType:
			return true
		}
		return false
	}
	if p := t.ConvertedType(); p != nil {
		return *p >= deprecated.Date && *p <= deprecated.TimestampMicros
	}
	return t.Kind() == parquet.Int96 // old writers store timestamps in this type
}

// nameOf returns the name of a column. In the path of a list, it leaves out the names that
// writers give to list elements.
func nameOf(leaf *parquet.Column, list bool) string {
	path := leaf.Path()
	for list && len(path) > 2 && slices.Contains([]string{"element", "item", "array", "array_element", "bag"}, path[len(path)-1]) {
		path = path[:len(path)-2]
	}
	return strings.Join(path, ".")
}

func kindOf(t parquet.Type) Kind {
	if l := t.LogicalType(); l != nil && l.Value != nil {
		switch l.Value.(type) {
		case *format.StringType, *format.EnumType, *format.JsonType:
			return Text
		case *format.IntType, *format.DecimalType:
			return Number
		}
		return Other
	}
	if c := t.ConvertedType(); c != nil {
		switch {
		case slices.Contains([]deprecated.ConvertedType{deprecated.UTF8, deprecated.Enum, deprecated.Json}, *c):
			return Text
		case *c < deprecated.Uint8 || *c > deprecated.Int64:
			return Other
		}
	}
	switch t.Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64, parquet.Float, parquet.Double:
		return Number
	case parquet.ByteArray:
		return Bytes
	case parquet.FixedLenByteArray:
		if t.Length() == 2 { // probably float16, because parquet-go does not report this annotation
			return Number
		}
	}
	return Other
}
