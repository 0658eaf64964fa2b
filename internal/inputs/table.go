package inputs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
		return nil, fmt.Errorf("%s: preprocessing is for images, and this is a table; leave out the preprocessing file", path)
	}
	t, err := readGroupedTable(ctx, path, o.Groups)
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
	if i := slices.Index(t.header, name); i >= 0 {
		return i, nil
	}
	if name == "last" {
		return t.cells.Cols - 1, nil
	}
	if t.header == nil {
		return 0, fmt.Errorf("%s: it has no header, so there is no column %q; use last for the last column", t.path, name)
	}
	return 0, fmt.Errorf("%s: there is no column %q; its columns are %s", t.path, name, strings.Join(t.header, ", "))
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

func (t *table) thumbnail(context.Context, int) (image.Image, error) { return nil, nil }

func (t *table) read(_ context.Context, idx []int, dst []float32) error {
	for k, i := range idx {
		copy(dst[k*t.cells.Cols:(k+1)*t.cells.Cols], t.cells.Data[i*t.cells.Stride:])
	}
	return nil
}

// readTable reads a text file of numbers: separated by commas, semicolons,
// tabs or blanks, with or without a header, with or without quotes.
func readTable(ctx context.Context, path string) (*table, error) {
	return readGroupedTable(ctx, path, "")
}

// readGroupedTable reads a table whose column named groups, unless that is
// empty, may be any text.
func readGroupedTable(ctx context.Context, path, groups string) (*table, error) {
	f, err := openStream(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &table{path: path, named: groups, at: -1}
	if err := t.parse(ctx, bufio.NewReaderSize(f, 1<<16)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *table) parse(ctx context.Context, r *bufio.Reader) error {
	next, err := records(r)
	if err != nil {
		return err
	}
	var pending *record
	for {
		rec, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if t.cells.Cols == 0 && pending == nil {
			pending = rec
			continue
		}
		if pending != nil {
			if isHeader(pending.cells, rec.cells) || t.named != "" && slices.Contains(pending.cells, t.named) {
				t.header = pending.cells
				t.cells.Cols = len(pending.cells)
				if t.named != "" {
					if t.at = slices.Index(t.header, t.named); t.at < 0 {
						return fmt.Errorf("there is no column %q to take groups from; its columns are %s", t.named, strings.Join(t.header, ", "))
					}
				}
			} else if err := t.add(pending); err != nil {
				return err
			}
			pending = nil
		}
		if err := t.add(rec); err != nil {
			return err
		}
		if t.cells.Rows%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if pending != nil && !isHeader(pending.cells, nil) {
		if err := t.add(pending); err != nil {
			return err
		}
	}
	if t.cells.Rows == 0 {
		return ErrEmpty
	}
	t.cells.Stride = t.cells.Cols
	return nil
}

// isHeader reports whether a first record names columns: it has a cell that is
// no number above one that is, or, with nothing below, no number at all.
func isHeader(first, second []string) bool {
	if second == nil {
		return !slices.ContainsFunc(first, numeric)
	}
	for j := range min(len(first), len(second)) {
		if !numeric(first[j]) && numeric(second[j]) {
			return true
		}
	}
	return false
}

func numeric(cell string) bool {
	_, err := parseCell(cell)
	return err == nil
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
			return t.badCell(rec.line, j, cell)
		}
		t.cells.Data = append(t.cells.Data, float32(v))
	}
	t.cells.Rows++
	t.lines = append(t.lines, rec.line)
	return nil
}

func (t *table) badCell(line, j int, cell string) error {
	col := strconv.Itoa(j + 1)
	if t.header != nil {
		col += fmt.Sprintf(" (%s)", t.header[j])
	}
	if strings.TrimSpace(cell) == "" {
		return fmt.Errorf("line %d, column %s: the cell is empty; every cell must be a number", line, col)
	}
	if _, err := parseCell(cell); errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("line %d, column %s: %.40q is too large for float32", line, col, cell)
	}
	return fmt.Errorf("line %d, column %s: %.40q is not a finite number; every cell must be one", line, col, cell)
}
