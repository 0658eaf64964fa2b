package inputs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// jsonLines is a file with one JSON object on each line.
type jsonLines struct {
	textFile
	columns []string // keys of the inspected lines, in order
	seen    map[string]bool
}

// sniffedRows is the number of rows at the beginning of a file whose cells determine the
// kinds of columns.
const sniffedRows = 64

func openJSONLines(ctx context.Context, path string, requested []string) (*jsonLines, error) {
	f := newJSONLines(path)
	if err := f.sniff(ctx, requested); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func newJSONLines(path string) *jsonLines {
	return &jsonLines{textFile: textFile{path: path, plain: true}, seen: map[string]bool{}}
}

// sniff finds the columns in the first sniffedRows lines. It reads further lines until each
// requested name has occurred, because a line may leave out a key that it has no value for.
func (f *jsonLines) sniff(ctx context.Context, requested []string) error {
	lines, err := f.open(ctx, position{})
	if err != nil {
		return err
	}
	defer lines.Close()
	var missing [][]byte // requested names that have not occurred so far, quoted
	for n := 0; n < sniffedRows || len(missing) > 0; n++ {
		line, err := lines.object()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && (n < sniffedRows || slices.ContainsFunc(missing, func(name []byte) bool { return bytes.Contains(line, name) })) {
			if bad := f.addKeys(line); bad != nil {
				err = lines.jsonError(bad)
			}
			if n >= sniffedRows-1 {
				missing = f.missing(requested)
			}
		}
		if err != nil && n >= sniffedRows {
			break // scan will report the error, after errors in earlier rows
		}
		if err != nil {
			return err
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// missing returns, in quotes, the requested names that have not occurred so far.
func (f *jsonLines) missing(requested []string) (quoted [][]byte) {
	for _, name := range requested {
		if text, err := json.Marshal(name); err == nil && !f.seen[name] {
			quoted = append(quoted, text)
		}
	}
	return quoted
}

// object returns the next line that is not blank.
func (l *lineReader) object() ([]byte, error) {
	for {
		l.budget = maxRecord
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("line %d: the text is not UTF-8; save the file as UTF-8", l.line)
		}
		if line[0] != '{' {
			return nil, fmt.Errorf("line %d: every line must be a JSON object, such as {\"a\": 1}, but this one begins with %.20q", l.line, line)
		}
		return line, nil
	}
}

// jsonError returns the error that the current line is not JSON.
func (l *lineReader) jsonError(err error) error {
	return fmt.Errorf("line %d: it is not JSON: %w", l.line, err)
}

// addKeys appends the keys of a line that did not occur in earlier lines.
func (f *jsonLines) addKeys(line []byte) error {
	return eachKey(line, func(name string) {
		if !f.seen[name] {
			f.columns, f.seen[name] = append(f.columns, name), true
		}
	})
}

// eachKey calls use with each key of a JSON object, in order. It stops at an error.
func eachKey(object []byte, use func(name string)) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		use(key.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

func (f *jsonLines) Names() []string { return f.columns }

func (f *jsonLines) records(ctx context.Context, columns []int, from position) (records, error) {
	lines, err := f.open(ctx, from)
	if err != nil {
		return nil, err
	}
	r := &jsonReader{lineReader: lines, wanted: columns, names: f.columns}
	if columns == nil {
		r.wanted = upTo(len(f.columns))
	}
	r.rec.cells = make([]cell, len(f.columns))
	return r, nil
}

type jsonReader struct {
	*lineReader
	wanted []int
	names  []string
	rec    record
}

func (r *jsonReader) next() (*record, error) {
	line, err := r.object()
	if err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return nil, r.jsonError(err)
	}
	if len(object) < countKeys(line) {
		return nil, fmt.Errorf("line %d: it has two values for the key %.100q; rename one", r.line, repeatedKey(line))
	}
	r.rec.line = r.line
	for _, j := range r.wanted {
		if r.rec.cells[j], err = jsonCell(object[r.names[j]]); err != nil {
			return nil, r.jsonError(err)
		}
	}
	return &r.rec, nil
}

// countKeys returns the number of keys of a JSON object, counting duplicates.
func countKeys(object []byte) (n int) {
	depth, quoted := 0, false
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ':' && depth == 1:
			n++
		}
	}
	return n
}

// repeatedKey returns the first key that a JSON object has twice.
func repeatedKey(object []byte) (repeated string) {
	seen := map[string]bool{}
	_ = eachKey(object, func(name string) { // object is known to be valid JSON
		if seen[name] {
			repeated = cmp.Or(repeated, name)
		}
		seen[name] = true
	})
	return repeated
}

// jsonCell returns the cell for a value that is known to be valid JSON. true becomes 1 and
// false 0.
func jsonCell(value json.RawMessage) (c cell, err error) {
	if len(value) == 0 {
		return c, nil
	}
	c.text = string(value)
	switch value[0] {
	case 'n':
		return cell{}, nil
	case 't':
		c.kind, c.number = number, 1
	case 'f':
		c.kind = number
	case '"':
		c.kind = text
		err = json.Unmarshal(value, &c.text)
	case '[':
		c.kind, c.text = list, ""
		var shape []int
		if c.list, shape = jsonList(value, 1); shape == nil {
			c = cell{kind: other}
		}
	case '{':
		c = cell{kind: other}
	default:
		c.kind = number
		c.number, err = strconv.ParseFloat(c.text, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // an infinity is an error when a number is needed
		}
	}
	return c, err
}

// maxAxes is the largest number of axes that a nested list may have.
const maxAxes = 4

// jsonList returns the numbers and the shape of a list. The shape is nil if nested lists
// have different shapes or more than maxAxes axes, or if an element is neither a number nor
// null.
func jsonList(value json.RawMessage, depth int) (all []float64, shape []int) {
	var numbers []*float64
	if json.Unmarshal(value, &numbers) == nil {
		for _, x := range numbers {
			if x == nil {
				all = append(all, math.NaN())
			} else {
				all = append(all, *x)
			}
		}
		return all, []int{len(all)}
	}
	var lists []json.RawMessage
	if depth == maxAxes || json.Unmarshal(value, &lists) != nil || len(lists) == 0 {
		return nil, nil
	}
	for i, l := range lists {
		if len(l) == 0 || l[0] != '[' {
			return nil, nil
		}
		part, inner := jsonList(l, depth+1)
		if inner == nil || i > 0 && !slices.Equal(inner, shape[1:]) {
			return nil, nil
		}
		shape = append([]int{len(lists)}, inner...)
		all = append(all, part...)
	}
	return all, shape
}
