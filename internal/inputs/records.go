package inputs

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// record is one line of a table.
type record struct {
	line  int
	cells []string
}

// records returns a function that reads record by record. How fields are
// separated is seen from the first line that is neither blank nor a comment;
// tabs says that it is by tabs, where there are any.
func records(r *bufio.Reader, tabs bool) (func() (*record, error), error) {
	start, _ := r.Peek(3)
	if bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) {
		return nil, errors.New("the text is UTF-16; save it as UTF-8")
	}
	if string(start) == "\xef\xbb\xbf" {
		if _, err := r.Discard(3); err != nil {
			return nil, err
		}
	}
	ahead, _ := r.Peek(r.Size())
	comma := separator(ahead, tabs)
	lines := &lineReader{r: r}
	if comma == 0 {
		return lines.blankSeparated, nil
	}
	c := csv.NewReader(lines)
	c.Comma = comma
	c.FieldsPerRecord = -1
	// It would take empty cells between tabs for space.
	c.TrimLeadingSpace = comma != '\t'
	return func() (*record, error) {
		lines.left = maxRecord
		cells, err := c.Read()
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		return &record{line, cells}, nil
	}, nil
}

// separator is ';', ',' (also of one quoted cell) or a tab between quoted or
// empty cells, and 0 for blanks.
func separator(text []byte, tabs bool) rune {
	var bare []byte
	quoted, quotes := false, false
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if !quoted && (len(bytes.TrimSpace(line)) == 0 || isComment(line)) {
			continue
		}
		for _, c := range line {
			if c == '"' {
				quoted, quotes = !quoted, true
			}
			if !quoted {
				bare = append(bare, c)
			}
		}
		if !quoted { // else a name of two lines
			break
		}
	}
	switch {
	case bytes.IndexByte(bare, ';') >= 0:
		return ';'
	case bytes.IndexByte(bare, ',') >= 0, string(bare) == `"`:
		return ','
	case bytes.IndexByte(bare, '\t') >= 0 && (tabs || quotes):
		return '\t'
	}
	return 0
}

// isComment reports whether a line is a comment: # and then a blank, another #
// or nothing. #N/A is a cell, and its row must not be passed over. In sep=; a
// spreadsheet names its separator, which the lines below show too.
func isComment(line []byte) bool {
	if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("sep=")); ok && len(rest) == 1 {
		return true
	}
	return len(line) > 0 && line[0] == '#' && (len(line) == 1 || bytes.IndexByte([]byte("# \t\r\n"), line[1]) >= 0)
}

// maxRecord bounds the bytes of one record, which a quote that is never closed
// would make of the whole file.
const maxRecord = 1 << 24

// lineReader reads lines, with comments made blank.
type lineReader struct {
	r    *bufio.Reader
	line int    // of the last one read, counted from one
	rest []byte // of it that Read has not returned
	left int    // bytes that may still be read for a record
}

func (l *lineReader) next() ([]byte, error) {
	l.line++
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if line == nil && err == nil {
			line = part // the usual case, without a copy
		} else {
			line = append(line, part...)
		}
		l.left -= len(part)
		switch {
		case l.left < 0:
			return nil, fmt.Errorf("line %d: up to here there are more than %d bytes without the end of a row; is a quote not closed?", l.line, maxRecord)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || len(line) == 0):
			return nil, err
		case bytes.IndexByte(bytes.TrimRight(line, "\r\n"), '\r') >= 0:
			return nil, fmt.Errorf("line %d: it has a carriage return without a line feed; end lines in line feeds", l.line)
		case isComment(line):
			return []byte("\n"), nil
		}
		return line, nil
	}
}

// Read passes lines on.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		var err error
		if l.rest, err = l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// blankSeparated reads cells with blanks between them.
func (l *lineReader) blankSeparated() (*record, error) {
	l.left = maxRecord
	for {
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		if cells := strings.Fields(string(line)); len(cells) > 0 {
			return &record{l.line, cells}, nil
		}
	}
}
