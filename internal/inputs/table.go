package inputs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/blas/blas32"
)

// table is a text file of numbers, held in memory.
type table struct {
	path   string
	header []string // nil if there is none
	cells  blas32.General
	lines  []int // of each row in the file, counted from one
	// named, where it is not empty, is the column of text that groups are read
	// from; at is its place, where cells hold 0.
	named  string
	at     int
	groups []string
}

// IsTable reports whether path is a text file of numbers by its name.
func IsTable(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv", ".tsv", ".txt", ".data", ".dat":
		return true
	}
	return false
}

func openTable(ctx context.Context, path string, o Options) (*Set, error) {
	if o.Preprocess != nil {
		return nil, fmt.Errorf("%s: preprocessing is for images, and this is a table; name images, or leave the preprocessing out", path)
	}
	t, err := readTable(ctx, path, o.Groups, o.Target)
	if err != nil {
		return nil, err
	}
	if o.Groups != "" {
		if t.cells.Cols == 1 {
			return nil, fmt.Errorf("%s: its one column says groups, which leaves no inputs", path)
		}
		t = t.without(t.at)
	}
	target, err := t.column(o.Target)
	if err != nil {
		return nil, err
	}
	if target < 0 {
		return &Set{src: t, shape: []int{t.cells.Cols}, groups: t.groups}, nil
	}
	if t.cells.Cols == 1 {
		return nil, fmt.Errorf("%s: its one column is the target, which leaves no inputs", path)
	}
	y, err := newTargets(t.take(target), path)
	if err != nil {
		return nil, err
	}
	s := &Set{src: t.without(target), shape: []int{t.cells.Cols - 1}, groups: t.groups}
	return s, s.SetTargets(y)
}

// column returns the index of a column by name, or by "last"; -1 for "".
func (t *table) column(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if name == "last" && !slices.Contains(t.header, name) {
		return t.cells.Cols - 1, nil
	}
	if t.header == nil {
		return 0, fmt.Errorf("%s: it has no header, so there is no column %q; use last for the last column", t.path, name)
	}
	i, err := t.find(name, "")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", t.path, err)
	}
	return i, nil
}

// find returns the place of a name in the header. What it is for ends a clause
// of its error.
func (t *table) find(name, use string) (int, error) {
	i := slices.Index(t.header, name)
	switch {
	case i < 0:
		return 0, fmt.Errorf("there is no column %q%s; its columns are %s", name, use, strings.Join(t.header, ", "))
	case slices.Contains(t.header[i+1:], name):
		return 0, fmt.Errorf("two columns are named %q; rename one", name)
	}
	return i, nil
}

func (t *table) take(col int) blas32.General {
	out := blas32.General{Rows: t.cells.Rows, Cols: 1, Stride: 1, Data: make([]float32, t.cells.Rows)}
	for i := range out.Data {
		out.Data[i] = t.cells.Data[i*t.cells.Stride+col]
	}
	return out
}

func (t *table) without(col int) *table {
	out := *t
	w := t.cells.Cols - 1
	out.cells = blas32.General{Rows: t.cells.Rows, Cols: w, Stride: w, Data: make([]float32, 0, t.cells.Rows*w)}
	for i := range t.cells.Rows {
		row := t.cells.Data[i*t.cells.Stride:][:t.cells.Cols]
		out.cells.Data = append(append(out.cells.Data, row[:col]...), row[col+1:]...)
	}
	if t.header != nil {
		out.header = slices.Delete(slices.Clone(t.header), col, col+1)
	}
	return &out
}

func (t *table) rows() int { return t.cells.Rows }

func (t *table) name(i int) string { return fmt.Sprintf("line %d of %s", t.lines[i], t.path) }

func (t *table) open() (reader, error) { return t, nil }

func (t *table) Close() error { return nil }

func (t *table) read(_ context.Context, idx []int, dst []float32) error {
	for k, i := range idx {
		copy(dst[k*t.cells.Cols:(k+1)*t.cells.Cols], t.cells.Data[i*t.cells.Stride:])
	}
	return nil
}

// readTable reads a text file of numbers: separated by commas, semicolons,
// tabs or blanks, with or without a header, with or without quotes. The column
// named groups, unless that is empty, may be any text.
func readTable(ctx context.Context, path, groups, target string) (*table, error) {
	f, err := openStream(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &table{path: path, named: groups, at: -1}
	tabs := strings.EqualFold(filepath.Ext(path), ".tsv")
	if err := t.parse(ctx, bufio.NewReaderSize(f, 1<<16), tabs, target); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *table) parse(ctx context.Context, r *bufio.Reader, tabs bool, target string) error {
	next, err := records(r, tabs)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		rec, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if first && isHeader(rec.cells, t.named, target) {
			for _, name := range rec.cells {
				// Names may be of several lines, and errors are of one.
				t.header = append(t.header, strings.TrimSpace(strings.ReplaceAll(name, "\n", " ")))
			}
			t.cells.Cols = len(t.header)
			if t.named != "" {
				if t.at, err = t.find(t.named, " to take groups from"); err != nil {
					return err
				}
			}
			continue
		}
		if err := t.add(rec); err != nil {
			return err
		}
		if t.cells.Rows%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if t.cells.Rows == 0 {
		return ErrEmpty
	}
	t.cells.Stride = t.cells.Cols
	return nil
}

// isHeader reports whether a first record names columns. Taking a row for a
// header would lose it in silence, so a header has no cell that reads as a
// number and one, at least, that can be nothing but a name, in plain text; or it
// has a name that is asked for. All else is a row of numbers, or an error.
func isHeader(first []string, asked ...string) bool {
	for _, name := range asked {
		if name != "" && !numeric(name) && slices.Contains(first, name) {
			return true
		}
	}
	return slices.ContainsFunc(first, isName) && !slices.ContainsFunc(first, numeric) && !slices.ContainsFunc(first, unprintable)
}

// unprintable reports whether a cell is of no text.
func unprintable(cell string) bool {
	return strings.ContainsFunc(cell, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// missing is how programs write that a value is not there.
var missing = [...]string{"NA", "N/A", "n/a", "<NA>", "NULL", "null", "None", "#N/A", "#DIV/0!", "#VALUE!"}

// isName reports whether a cell has a letter, is no mark of a missing value and
// does not begin as a number does.
func isName(cell string) bool {
	cell = strings.TrimSpace(cell)
	digits := strings.TrimLeft(cell, "+-.,")
	return strings.ContainsFunc(cell, unicode.IsLetter) && !slices.Contains(missing[:], cell) && (digits[0] < '0' || digits[0] > '9')
}

// numeric reports whether a cell reads as a number, be it not finite or too
// large.
func numeric(cell string) bool {
	_, err := parseCell(cell)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// isPandasIndex reports whether a first record is what pandas writes above
// numbered rows of numbered columns.
func isPandasIndex(first []string) bool {
	for j, cell := range first {
		if j == 0 && cell != "" || j > 0 && cell != strconv.Itoa(j-1) {
			return false
		}
	}
	return len(first) > 1
}

func parseCell(cell string) (float64, error) {
	return strconv.ParseFloat(strings.TrimSpace(cell), 32)
}

func (t *table) add(rec *record) error {
	if t.cells.Cols == 0 {
		t.cells.Cols = len(rec.cells)
	}
	if t.named != "" && t.header == nil {
		return fmt.Errorf("it has no header, so there is no column %q to take groups from", t.named)
	}
	if len(rec.cells) != t.cells.Cols {
		return fmt.Errorf("line %d: it has %d columns, the lines before it have %d", rec.line, len(rec.cells), t.cells.Cols)
	}
	for j, cell := range rec.cells {
		if t.named != "" && j == t.at {
			t.groups, t.cells.Data = append(t.groups, strings.TrimSpace(cell)), append(t.cells.Data, 0)
			continue
		}
		v, err := parseCell(cell)
		if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			err = errors.New("not finite")
		}
		if err != nil {
			return t.badCell(rec, j)
		}
		t.cells.Data = append(t.cells.Data, float32(v))
	}
	t.cells.Rows++
	t.lines = append(t.lines, rec.line)
	return nil
}

func (t *table) badCell(rec *record, j int) error {
	cell := rec.cells[j]
	where := fmt.Sprintf("line %d, column %d", rec.line, j+1)
	must := "every cell must be a finite number"
	if t.header != nil {
		where += fmt.Sprintf(" (%s)", t.header[j])
	} else if t.cells.Rows == 0 {
		must += ", or in a header no cell a number"
		if isPandasIndex(rec.cells) {
			must = "where this is the header that pandas writes above an index, write the table with index=False and names of columns, or with header=False"
		}
	}
	what := fmt.Sprintf("%.40q is not a finite number", cell)
	if _, err := parseCell(cell); errors.Is(err, strconv.ErrRange) {
		what = fmt.Sprintf("%.40q is too large for float32", cell)
	} else if strings.TrimSpace(cell) == "" {
		what = "the cell is empty"
	}
	return fmt.Errorf("%s: %s; %s", where, what, must)
}
