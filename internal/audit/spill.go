package audit

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// spill sorts records into bins and keeps their order within a bin. Less than chunkRecords
// records of each bin are in memory. The rest is in a temporary file in dir.
type spill struct {
	dir  string
	size int      // bytes of a record
	file *os.File // nil until a bin is full
	end  int64
	bins map[int]*bin
}

// bin holds the records of one bin.
type bin struct {
	chunks []int64 // offsets of full chunks in the file
	last   []byte  // records that are not in the file yet
}

// chunkRecords is the number of records that are written to the file at a time.
const chunkRecords = 1 << 8

// empty reports whether there is no record.
func (s *spill) empty() bool { return s.bins == nil }

// add appends a record to a bin.
func (s *spill) add(index int, content []byte) error {
	b := s.bins[index]
	if b == nil {
		b = &bin{}
		if s.bins == nil {
			s.bins = map[int]*bin{}
		}
		s.bins[index] = b
	}
	if b.last = append(b.last, content...); len(b.last) < chunkRecords*s.size {
		return nil
	}
	if s.file == nil {
		var err error
		if s.file, err = os.CreateTemp(s.dir, ".attach-*.tmp"); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(b.last, s.end); err != nil {
		return err
	}
	b.chunks = append(b.chunks, s.end)
	s.end += int64(len(b.last))
	b.last = b.last[:0]
	return nil
}

// each calls the function use for each record of a bin, in order.
func (s *spill) each(index int, use func(content []byte) error) error {
	b := s.bins[index]
	if b == nil {
		return nil
	}
	var buffer []byte
	for i := range len(b.chunks) + 1 {
		content := b.last
		if i < len(b.chunks) {
			if buffer == nil {
				buffer = make([]byte, chunkRecords*s.size)
			}
			content = buffer
			if _, err := s.file.ReadAt(content, b.chunks[i]); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		for ; len(content) > 0; content = content[s.size:] {
			if err := use(content[:s.size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsPerBin is the number of consecutive rows that share a bin of rowValues.
const rowsPerBin = 1 << 16

// rowValues holds values of some rows.
type rowValues[T any] struct {
	spill
	decode func(record []byte, value *T) // decodes the record after the row number
}

// rowReader reads values of rows. One bin of rows is in memory.
type rowReader[T any] struct {
	from   *rowValues[T]
	values []T // values of the rows in the bin
	bin    int // number of this bin, counted from 1, or 0 if none was read
}

// reader returns a reader of the values that are set. Several readers may read at once.
func (r *rowValues[T]) reader() *rowReader[T] { return &rowReader[T]{from: r} }

// set adds a record of a row. If a row has several, decode gets one after another.
func (r *rowValues[T]) set(row int, record []byte) error {
	return r.add(row/rowsPerBin, append(binary.LittleEndian.AppendUint64(nil, uint64(row)), record...))
}

// of returns the values of n rows that begin at row. A row without a record has the zero value.
// Callers go through the rows in order, because only one bin is in memory.
func (r *rowReader[T]) of(row, n int) ([]T, error) {
	var list []T
	for len(list) < n {
		at := row + len(list)
		if bin := at/rowsPerBin + 1; bin != r.bin {
			if r.values == nil {
				r.values = make([]T, rowsPerBin)
			}
			clear(r.values)
			r.bin = bin
			err := r.from.each(bin-1, func(record []byte) error {
				r.from.decode(record[8:], &r.values[binary.LittleEndian.Uint64(record)%rowsPerBin])
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		begin := at % rowsPerBin
		list = append(list, r.values[begin:min(begin+n-len(list), rowsPerBin)]...)
	}
	return list, nil
}

// close removes the temporary file.
func (s *spill) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
