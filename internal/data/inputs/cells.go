package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tabular is a file whose rows have cells.
type tabular interface {
	// Names returns the names of the columns, or nil if the first record may contain them.
	Names() []string
	// unit returns the name of a record in the file: line or row.
	unit() string
	// records returns the records from a position on. They contain the cells of the given
	// columns, or of all columns if columns is nil.
	records(ctx context.Context, columns []int, from position) (records, error)
}

// records iterates over the records of a file.
type records interface {
	// next returns the next record, which is valid until the next call, or io.EOF.
	next() (*record, error)
	// at returns the position of the next record.
	at() position
	// seek moves to the position of a record.
	seek(to position)
	Close() error
}

// recordsOf yields the records of a file from a position on, each with its own position. It
// ends at the end of the file or after an error.
func recordsOf(ctx context.Context, f tabular, columns []int, from position) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		recs, err := f.records(ctx, columns, from)
		if err != nil {
			yield(&record{at: from}, err)
			return
		}
		defer recs.Close()
		for n := 0; ; n++ {
			at := recs.at()
			rec, err := recs.next()
			switch {
			case n%4096 == 0 && ctx.Err() != nil:
				rec, err = new(record), ctx.Err()
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				rec = new(record)
			}
			rec.at = at
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// record holds the cells of one row. Cells of columns that were not requested may be
// absent.
type record struct {
	at    position // its position, set by recordsOf
	line  int
	cells []cell
}

// setTexts replaces the record's cells by texts.
func (r *record) setTexts(line int, texts []string) *record {
	r.line = line
	r.cells = slices.Grow(r.cells[:0], len(texts))
	for _, t := range texts {
		r.cells = append(r.cells, cell{kind: text, text: t})
	}
	return r
}

type cellKind uint8

// list is a list of numbers. other is any value that cannot be read, such as a date or a
// list of lists of different lengths.
const (
	absent cellKind = iota
	text
	number
	list
	other
)

// cell is the value of one row in one column.
type cell struct {
	kind   cellKind
	text   string
	number float64
	list   []float64
}

// missing lists texts that programs write for a missing value.
var missing = [...]string{"NA", "N/A", "n/a", "<NA>", "NULL", "null", "None", "#N/A", "#DIV/0!", "#VALUE!"}

// isNumeric reports whether a cell can be read as a number. The number may be infinite, NaN
// or too large.
func (c *cell) isNumeric() bool { return c.kind == number || c.kind == text && isNumeric(c.text) }

// isText reports whether a cell contains natural text. Numbers, marks for missing values,
// and cells with only punctuation are not natural text.
func (c *cell) isText() bool {
	return c.kind == text && !c.isMissing() && !isNumeric(c.text) && strings.Trim(c.text, " \t.?-_*#") != ""
}

// isMissing reports whether a cell stands for a missing number.
func (c *cell) isMissing() bool {
	trimmed := strings.TrimSpace(c.text)
	return c.kind == absent || c.kind == number && math.IsNaN(c.number) ||
		c.kind == text && (trimmed == "" || strings.EqualFold(trimmed, "nan") || slices.Contains(missing[:], trimmed))
}

func isNumeric(s string) bool {
	_, err := parseCell(s)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

func parseCell(s string) (float64, error) {
	return strconv.ParseFloat(strings.TrimSpace(s), 32)
}

// finiteNumber returns the number in a cell. If there is none, problem says why.
func (c *cell) finiteNumber() (v float32, problem string) {
	x := c.number
	switch c.kind {
	case absent:
		return 0, "the cell is empty"
	case list:
		return 0, "a list is no number"
	case other:
		return 0, "dates, times and nested values are no numbers"
	case text:
		var err error
		x, err = parseCell(c.text)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, fmt.Sprintf("%.40q is too large for float32", c.text)
		case strings.TrimSpace(c.text) == "":
			return 0, "the cell is empty"
		case err != nil:
			return 0, notNumber(c.text)
		}
	}
	switch v = float32(x); {
	case !math.IsInf(x, 0) && math.IsInf(float64(v), 0):
		return 0, fmt.Sprintf("%v is too large for float32", x)
	case math.IsNaN(x) || math.IsInf(x, 0):
		shown := fmt.Sprint(x)
		if c.kind == text {
			shown = fmt.Sprintf("%.40q", c.text)
		}
		return 0, shown + " is not a finite number"
	}
	return v, ""
}

// notNumber returns the message that a text is not a number. If people would read the text
// as a number, the message says what to write instead.
func notNumber(text string) string {
	problem := fmt.Sprintf("%.40q is not a number", text)
	if guess, instead := otherNotation(text); guess != "" {
		problem += fmt.Sprintf(" (%s); %s", guess, instead)
	}
	return problem
}

// asText returns the text in a cell. If there is none, problem says why.
func (c *cell) asText() (s, problem string) {
	switch {
	case c.kind == absent:
		return "", "there is no text"
	case c.kind == list:
		return "", "a list is no text"
	case c.kind == other:
		return "", "dates, times and nested values are no texts"
	case c.kind == number && c.text == "":
		return "", "the file has a number, which may be written in several ways, and the model takes texts; save the column as texts"
	case !utf8.ValidString(c.text):
		return "", "the text is not UTF-8; save the file as UTF-8"
	}
	return c.text, ""
}

// appendNumbers appends the numbers of a list to dst. If one of them is not usable, problem
// says why.
func (c *cell) appendNumbers(dst []float32) (all []float32, problem string) {
	switch c.kind {
	case list:
	case absent:
		return dst, "the cell is empty"
	default:
		return dst, "it is no list of numbers"
	}
	for i, x := range c.list {
		v := cell{kind: number, number: x}
		y, problem := v.finiteNumber()
		if problem != "" {
			return dst, fmt.Sprintf("entry %d: %s", i, problem)
		}
		dst = append(dst, y)
	}
	return dst, ""
}

// asName returns the content of a cell as a name, for example of a group or a class.
func (c *cell) asName() string {
	if c.kind == number && c.text == "" {
		return strconv.FormatFloat(c.number, 'f', -1, 64)
	}
	return strings.TrimSpace(c.text)
}
