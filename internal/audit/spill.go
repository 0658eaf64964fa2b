package audit

import (
	"errors"
	"io"
	"os"
)

// spill sorts records into bins and keeps their order within a bin. Less than chunkSize
// bytes of each bin are in memory. The rest is in a temporary file in dir.
type spill struct {
	dir  string
	file *os.File // nil until a bin is full
	end  int64
	bins map[int]*bin
}

// bin holds the records of one bin.
type bin struct {
	chunks []int64 // offsets of full chunks in the file
	last   []byte  // records that are not in the file yet
}

// chunkSize is a multiple of the sizes of all records, so that no record is split.
const chunkSize = hashRecordSize * copyRecordSize << 5

// add appends a record to a bin. All records of a bin have the same size.
func (s *spill) add(index int, content []byte) error {
	b := s.bins[index]
	if b == nil {
		b = &bin{}
		if s.bins == nil {
			s.bins = map[int]*bin{}
		}
		s.bins[index] = b
	}
	if b.last = append(b.last, content...); len(b.last) < chunkSize {
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
	s.end += chunkSize
	b.last = b.last[:0]
	return nil
}

// each calls the function use for each record of a bin, in order.
func (s *spill) each(index, size int, use func(content []byte) error) error {
	b := s.bins[index]
	if b == nil {
		return nil
	}
	var buffer []byte
	for i := range len(b.chunks) + 1 {
		content := b.last
		if i < len(b.chunks) {
			if buffer == nil {
				buffer = make([]byte, chunkSize)
			}
			content = buffer
			if _, err := s.file.ReadAt(content, b.chunks[i]); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		for ; len(content) > 0; content = content[size:] {
			if err := use(content[:size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// close removes the temporary file.
func (s *spill) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
