package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
)

// spill sorts records of equal size into bins. Less than chunkRecords records of each bin are in
// memory. The rest is in a temporary file in dir. Several goroutines may add records.
type spill struct {
	dir  string
	size int // bytes of a record

	mutex sync.Mutex
	file  *os.File // nil until a bin is full
	end   int64
	bins  map[int]*bin
}

// bin holds the records of one bin.
type bin struct {
	chunks []int64 // offsets of full chunks in the file
	last   []byte  // records that are not in the file yet
}

// chunkRecords is the number of records that are written to the file at a time.
const chunkRecords = 1 << 8

// add appends a record to a bin.
func (s *spill) add(index int, record []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	b := s.bins[index]
	if b == nil {
		b = &bin{}
		if s.bins == nil {
			s.bins = map[int]*bin{}
		}
		s.bins[index] = b
	}
	if b.last = append(b.last, record...); len(b.last) < chunkRecords*s.size {
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

// records returns the records of a bin. Call it after all records are added.
func (s *spill) records(index int) Records {
	return func(use func(record []byte) error) error {
		b := s.bins[index]
		if b == nil {
			return nil
		}
		buffer := make([]byte, chunkRecords*s.size)
		for _, at := range b.chunks {
			if _, err := s.file.ReadAt(buffer, at); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if err := eachRecord(buffer, s.size, use); err != nil {
				return err
			}
		}
		return eachRecord(b.last, s.size, use)
	}
}

// eachRecord calls the function use for each record of a size.
func eachRecord(records []byte, size int, use func(record []byte) error) error {
	for record := range slices.Chunk(records, size) {
		if err := use(record); err != nil {
			return err
		}
	}
	return nil
}

// Records calls the function use for each record that was sent to a task, in any order. The record
// is valid until use returns. A task may go through its records several times.
type Records func(use func(record []byte) error) error

// Spool returns the records of a size in chunks. It writes them to a temporary file, which remove
// removes, because many records may be sent to one task. The function next returns the next chunk,
// or false after the last one.
func Spool(next func() (chunk []byte, ok bool), size int) (records Records, remove func(), err error) {
	all := &spill{size: size}
	for chunk, ok := next(); ok && err == nil; chunk, ok = next() {
		err = eachRecord(chunk, size, func(record []byte) error { return all.add(0, record) })
	}
	return all.records(0), all.close, err
}

// close removes the temporary file.
func (s *spill) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

// sorted holds sorted records.
type sorted [][]byte

// sort returns the records of a size, sorted by their bytes. Records begin with what they are
// sorted by, in big-endian order, so the result does not depend on the order in which they were
// sent.
func (r Records) sort(size int) (sorted, error) {
	var all []byte
	err := r(func(record []byte) error {
		all = append(all, record...)
		return nil
	})
	list := slices.AppendSeq(make(sorted, 0, len(all)/size), slices.Chunk(all, size))
	slices.SortFunc(list, bytes.Compare)
	return list, err
}

// WriteTo writes the records.
func (s sorted) WriteTo(w io.Writer) (n int64, err error) {
	buffered := bufio.NewWriterSize(w, 1<<16)
	for _, record := range s {
		buffered.Write(record) // Flush returns the error
		n += int64(len(record))
	}
	return n, buffered.Flush()
}

// rowReader reads values of rows from sorted records that begin with the numbers of rows.
type rowReader[T any] struct {
	close  func()
	from   io.Reader
	record []byte // the next record; nil after the last one
	decode func(record []byte) T
}

// openRows opens a file with records of a size.
func openRows[T any](ctx context.Context, files Files, name string, size int, decode func(record []byte) T) (*rowReader[T], error) {
	paths, release, err := files.Local(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(paths[0])
	if err != nil {
		release()
		return nil, err
	}
	r := &rowReader[T]{close: func() { f.Close(); release() }, from: bufio.NewReaderSize(f, 1<<16), record: make([]byte, size), decode: decode}
	if err := r.next(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rowReader[T]) next() error {
	_, err := io.ReadFull(r.from, r.record)
	if errors.Is(err, io.EOF) {
		r.record, err = nil, nil
	}
	return err
}

// of returns the values of n rows that begin at row. A row without a record has the zero value.
// Callers go through the rows in order.
func (r *rowReader[T]) of(row, n int) ([]T, error) {
	list := make([]T, n)
	for r.record != nil {
		at := int(binary.BigEndian.Uint64(r.record)) - row
		if at >= n {
			break
		}
		if at >= 0 {
			list[at] = r.decode(r.record[8:])
		}
		if err := r.next(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// written is a WriterTo of bytes.
type written []byte

// WriteTo writes the bytes.
func (b written) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

// Files holds the files of a merge. Names are relative to the folder of its results.
type Files interface {
	// Put writes a file. It may be written again, with the same content.
	Put(ctx context.Context, name string, content io.WriterTo) error
	// Local returns the paths of files on this machine. They exist until release is called.
	Local(ctx context.Context, names ...string) (paths []string, release func(), err error)
}
