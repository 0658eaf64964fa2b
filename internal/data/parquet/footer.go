package parquet

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// maxColumns limits the number of columns, and so the work to read a footer.
	maxColumns = 1 << 16
	// maxDepth limits the nesting of columns and of structs in a footer.
	maxDepth = 64
)

// checkFooter returns an error for a footer with impossible sizes. It runs before the
// library, which allocates memory for lists before it reads their elements and recurses
// into nested values.
func checkFooter(footer []byte) error {
	var meta format.FileMetaData
	if err := thrift.NewDecoder(newSizedReader(footer)).Decode(&meta); err != nil {
		return err
	}
	if len(meta.Schema) > 2*maxColumns {
		return errors.New("there are too many columns")
	}
	var left []int32 // remaining children of each open node
	for _, element := range meta.Schema {
		for len(left) > 0 && left[len(left)-1] == 0 {
			left = left[:len(left)-1]
		}
		if len(left) > 0 {
			left[len(left)-1]--
		}
		if element.NumChildren.V < 0 || len(left) == maxDepth {
			return fmt.Errorf("columns are nested more than %d deep, or fewer than none", maxDepth)
		}
		left = append(left, element.NumChildren.V)
	}
	return nil
}

// sizedReader reads the Thrift data of footers and page headers. It returns an error for a
// list with more elements than bytes, for lists with too many structs, for lists of lists,
// for maps, and for deeply nested structs.
type sizedReader struct {
	thrift.BytesReader
	size  int
	room  int   // number of structs that lists may still contain
	depth []int // remaining structs of each open list or field
}

func newSizedReader(b []byte) *sizedReader {
	// A struct in a footer has at least eight bytes, so len(b)/8 structs are possible.
	return &sizedReader{BytesReader: new(thrift.CompactProtocol).NewReaderFromBytes(b), size: len(b), room: maxColumns + len(b)/8}
}

// Discard skips n bytes. The Thrift decoder calls this method if a reader has it.
func (r *sizedReader) Discard(n int) (int, error) {
	return r.BytesReader.(interface{ Discard(int) (int, error) }).Discard(n)
}

func (r *sizedReader) open(n int) error {
	if len(r.depth) == maxDepth {
		return fmt.Errorf("structs are nested more than %d deep", maxDepth)
	}
	r.depth = append(r.depth, n)
	return nil
}

// ReadField reads the beginning of a field, or the end of a struct, and tracks the depth.
func (r *sizedReader) ReadField() (thrift.Field, error) {
	f, err := r.BytesReader.ReadField()
	switch last := len(r.depth) - 1; {
	case err != nil:
	case f.Type == thrift.STRUCT:
		err = r.open(1)
	case f.Type == thrift.STOP && last >= 0:
		if r.depth[last]--; r.depth[last] == 0 {
			r.depth = r.depth[:last]
		}
	}
	return f, err
}

// ReadList reads the beginning of a list.
func (r *sizedReader) ReadList() (thrift.List, error) {
	l, err := r.BytesReader.ReadList()
	n := int(l.Size)
	switch {
	case err != nil || n == 0:
		return l, err
	case n > r.size-r.BytesRead() || l.Type == thrift.LIST || l.Type == thrift.SET || l.Type == thrift.MAP:
		return l, fmt.Errorf("a list of %d elements in %d bytes", n, r.size-r.BytesRead())
	case l.Type == thrift.STRUCT:
		if r.room -= n; r.room < 0 {
			return l, fmt.Errorf("lists of more than %d structs in %d bytes", maxColumns+r.size/8, r.size)
		}
		err = r.open(n)
	}
	return l, err
}

// ReadSet reads the beginning of a set.
func (r *sizedReader) ReadSet() (thrift.Set, error) {
	l, err := r.ReadList()
	return thrift.Set(l), err
}

// ReadMap returns an error, because the Thrift structs of Parquet contain no maps.
func (r *sizedReader) ReadMap() (thrift.Map, error) {
	return thrift.Map{}, errors.New("it contains a map")
}
