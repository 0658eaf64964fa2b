package audit

import (
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

// close removes the temporary file.
func (s *spill) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
