package inputs

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"io"
	"strings"
)

// record is one line of a table.
type record struct {
	line  int
	cells []string
}

// records returns a function that reads record by record. How fields are
// separated is seen from the first line that is neither blank nor a comment.
func records(r *bufio.Reader) (func() (*record, error), error) {
	if bom, _ := r.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		if _, err := r.Discard(3); err != nil {
			return nil, err
		}
	}
	ahead, _ := r.Peek(r.Size())
	comma := separator(ahead)
	if comma == 0 {
		return blankSeparated(r), nil
	}
	c := csv.NewReader(r)
	c.Comma = comma
	c.Comment = '#'
	c.FieldsPerRecord = -1
	c.TrimLeadingSpace = true
	c.ReuseRecord = false
	return func() (*record, error) {
		cells, err := c.Read()
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		return &record{line, cells}, nil
	}, nil
}

// separator is ';', ',' or a tab between quoted or empty cells, and 0 for blanks.
func separator(text []byte) rune {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		var bare []byte
		quoted := false
		for _, c := range line {
			if c == '"' {
				quoted = !quoted
			}
			if !quoted {
				bare = append(bare, c)
			}
		}
		switch {
		case bytes.IndexByte(bare, ';') >= 0:
			return ';'
		case bytes.IndexByte(bare, ',') >= 0:
			return ','
		case bytes.IndexByte(bare, '\t') >= 0 && bytes.IndexByte(line, '"') >= 0:
			return '\t'
		}
		return 0
	}
	return 0
}

func blankSeparated(r *bufio.Reader) func() (*record, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<26)
	line := 0
	return func() (*record, error) {
		for sc.Scan() {
			line++
			text := sc.Text()
			if strings.HasPrefix(text, "#") {
				continue
			}
			if cells := strings.Fields(text); len(cells) > 0 {
				return &record{line, cells}, nil
			}
		}
		if err := sc.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
}
