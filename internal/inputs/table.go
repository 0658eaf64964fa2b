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

	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// table is the inputs of a text file of numbers, held in memory.
type table struct {
	path   string
	header []string // of cells; nil if there is none
	cells  blas32.General
	lines  []int // of each row in the file, counted from one
	none   ood.Tensor
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
		return nil, fmt.Errorf("%s: preprocessing is for images, and this is a table: %w", path, ErrNoPixels)
	}
	t, err := readTable(ctx, path, o)
	if err != nil {
		return nil, err
	}
	input := only(o.Takes)
	t.none = numbers(input.Name, input.row([]int{t.cells.Cols}))
	s := &Set{src: &t.table, groups: t.groups, unread: t.unread, odd: t.odd}
	if t.at == nil {
		return s, nil
	}
	for _, j := range t.at {
		if t.all != nil {
			s.targetNames = append(s.targetNames, t.all[j])
		}
	}
	k := len(t.at)
	y, err := newTargets(blas32.General{Rows: len(t.targets) / k, Cols: k, Stride: k, Data: t.targets}, path)
	if err != nil {
		return nil, err
	}
	return s, s.SetTargets(y)
}

func (t *table) rows() int { return t.cells.Rows }

func (t *table) name(i int) string { return fmt.Sprintf("line %d of %s", t.lines[i], t.path) }

func (t *table) tensors() []ood.Tensor { return []ood.Tensor{t.none} }

func (t *table) open() (reader, error) { return filled{t, t.none}, nil }

func (t *table) Close() error { return nil }

func (t *table) fill(_ context.Context, idx []int, dst []float32) error {
	for k, i := range idx {
		copy(dst[k*t.cells.Cols:(k+1)*t.cells.Cols], t.cells.Data[i*t.cells.Stride:])
	}
	return nil
}

// tableReader reads a table: which of its columns are what, and their cells.
type tableReader struct {
	table
	o       Options
	width   int      // columns that the model takes, 0 for any number
	all     []string // names of all columns; nil if there is no header
	columns int      // of each record
	// inputs, at and group are places of columns: those of inputs and of targets, and
	// that of groups, -1 for none.
	inputs, at []int
	group      int
	// bad are the errors of the first cells of inputs that are no numbers, where
	// which columns are inputs is only known once all cells have been seen.
	bad     []error
	numbers []int // that inputs hold, by column
	targets []float32
	groups  []string
	odd     error    // for which targets are passed over
	unread  []string // columns that are left alone for want of a name or of numbers
}

// readTable reads a text file of numbers: separated by commas, semicolons,
// tabs or blanks, with or without a header, with or without quotes. Of its
// columns those that nothing asks for may be any text.
func readTable(ctx context.Context, path string, o Options) (*tableReader, error) {
	f, err := openStream(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &tableReader{table: table{path: path}, o: o, width: only(o.Takes).width()}
	tabs := strings.EqualFold(filepath.Ext(path), ".tsv")
	if err := t.parse(ctx, bufio.NewReaderSize(f, 1<<16), tabs); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *tableReader) parse(ctx context.Context, r *bufio.Reader, tabs bool) error {
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
		if first {
			header := t.isHeader(rec.cells)
			if header {
				for _, name := range rec.cells {
					// Names may be of several lines, and errors are of one.
					t.all = append(t.all, strings.TrimSpace(strings.ReplaceAll(name, "\n", " ")))
				}
			}
			if err := t.place(len(rec.cells)); err != nil {
				return err
			}
			if header {
				continue
			}
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
	return t.choose()
}

// place says which of so many columns are what.
func (t *tableReader) place(columns int) error {
	t.columns, t.group = columns, -1
	defer func() {
		t.cells.Cols = len(t.inputs)
		t.bad, t.numbers = make([]error, len(t.inputs)), make([]int, len(t.inputs))
	}()
	var err error
	if t.o.Groups != "" {
		if t.group, err = t.find(t.o.Groups, " to take groups from"); err != nil {
			return err
		}
	}
	if err := t.placeTargets(); err != nil {
		return err
	}
	if t.all != nil && t.o.Columns != nil {
		return t.placeNamed()
	}
	left := append([]int{t.group}, t.at...)
	for _, name := range t.o.Ignore {
		i, err := t.find(name, " to leave out")
		if err != nil {
			return err
		}
		left = append(left, i)
	}
	for j := range columns {
		if !slices.Contains(left, j) {
			t.inputs = append(t.inputs, j)
		}
	}
	if len(t.inputs) == 0 {
		return errors.New("all its columns are targets, groups or left out, which leaves no inputs")
	}
	return nil
}

// placeTargets finds the targets.
func (t *tableReader) placeTargets() error {
	names, have := t.o.Targets, 0
	for _, name := range names {
		if slices.Contains(t.all, name) {
			have++
		}
	}
	switch {
	case t.o.TargetOptional && (have == 0 || t.o.SkipOdd && have < len(names)):
		return nil
	case have == 0 && len(names) == 1 && names[0] == "last":
		t.at = []int{t.columns - 1}
		return nil
	}
	for _, name := range t.o.Targets {
		if t.all == nil {
			return fmt.Errorf("it has no header, so there is no column %.100q; use last for the last column", name)
		}
		i, err := t.find(name, "")
		if err != nil {
			return err
		}
		if slices.Contains(t.at, i) {
			return fmt.Errorf("column %.100q is named twice as a target", name)
		}
		t.at = append(t.at, i)
	}
	return nil
}

// placeNamed takes the inputs by their names.
func (t *tableReader) placeNamed() error {
	var missing []string
	for _, name := range t.o.Columns {
		if !slices.Contains(t.all, name) {
			missing = append(missing, fmt.Sprintf("%.100q", name))
			continue
		}
		i, err := t.find(name, "")
		if err != nil {
			return err
		}
		if slices.Contains(t.at, i) {
			return fmt.Errorf("column %.100q cannot be a target: it is an input", name)
		}
		t.inputs = append(t.inputs, i)
	}
	if missing == nil {
		return nil
	}
	what := "column"
	if len(missing) > 1 {
		what = "columns"
	}
	return fmt.Errorf("it lacks the %s %s of the rows fitted on; its columns are %s; rename them, or leave out the header to have columns taken by their places",
		what, Listed(missing), Listed(t.all))
}

// find returns the place of a name in the header. What it is for ends a clause
// of its error.
func (t *tableReader) find(name, use string) (int, error) {
	i := slices.Index(t.all, name)
	switch {
	case t.all == nil:
		return 0, fmt.Errorf("it has no header, so there is no column %.100q%s", name, use)
	case i < 0:
		return 0, fmt.Errorf("there is no column %.100q%s; its columns are %s", name, use, Listed(t.all))
	case slices.Contains(t.all[i+1:], name):
		return 0, fmt.Errorf("two columns are named %.100q; rename one", name)
	}
	return i, nil
}

// Listed are names with commas between, the first of them where there are many, cut
// where they are long.
func Listed(names []string) string {
	const most = 40
	var list []string
	for _, name := range names[:min(len(names), most)] {
		list = append(list, fmt.Sprintf("%.100s", name))
	}
	more := ""
	if n := len(names) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(list, ", ") + more
}

// undecided says that which columns are inputs is seen from their cells.
func (t *tableReader) undecided() bool {
	return t.all != nil && t.o.Columns == nil && t.width > 0 && len(t.inputs) > t.width
}

// ColumnsError says that a table has more columns than the model takes.
type ColumnsError struct {
	Columns []string // that hold numbers; nil if the table has no header
	Have    int      // of them
	Takes   int
}

func (e *ColumnsError) Error() string {
	if e.Columns == nil {
		return fmt.Sprintf("it has %s, and the model takes %d", rows.Count(e.Have, "column"), e.Takes)
	}
	return fmt.Sprintf("it has %s with a name and numbers, and the model takes %d: %s", rows.Count(e.Have, "column"), e.Takes, Listed(e.Columns))
}

// choose leaves out columns without a name or a number where there are more than
// the model takes.
func (t *tableReader) choose() error {
	if t.all == nil {
		if t.width > 0 && t.cells.Cols > t.width {
			return &ColumnsError{Have: t.cells.Cols, Takes: t.width}
		}
		return nil
	}
	var keep []int
	for k, j := range t.inputs {
		if !t.undecided() || t.all[j] != "" && t.numbers[k] > 0 {
			keep = append(keep, k)
			t.header = append(t.header, t.all[j])
		} else {
			t.unread = append(t.unread, t.all[j])
		}
	}
	if t.undecided() && len(keep) != t.width {
		return &ColumnsError{Columns: t.header, Have: len(keep), Takes: t.width}
	}
	for k, name := range t.header {
		if slices.Contains(t.header[k+1:], name) {
			return fmt.Errorf("two columns are named %.100q; rename one", name)
		}
	}
	if len(keep) == t.cells.Cols {
		return nil
	}
	for _, k := range keep {
		if t.bad[k] != nil {
			return t.bad[k]
		}
	}
	w := len(keep)
	cells := blas32.General{Rows: t.cells.Rows, Cols: w, Stride: w, Data: make([]float32, 0, t.cells.Rows*w)}
	for i := range t.cells.Rows {
		for _, k := range keep {
			cells.Data = append(cells.Data, t.cells.Data[i*t.cells.Stride+k])
		}
	}
	t.cells = cells
	return nil
}

// isHeader reports whether the first record names columns: those that are asked
// for, or any.
func (t *tableReader) isHeader(first []string) bool {
	known := t.o.Columns != nil
	for _, name := range t.o.Columns {
		known = known && slices.Contains(first, name)
	}
	return known || isHeader(first, slices.Concat([]string{t.o.Groups}, t.o.Targets, t.o.Ignore)...)
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

func (t *tableReader) add(rec *record) error {
	if len(rec.cells) != t.columns {
		return fmt.Errorf("line %d: it has %s, the lines before it have %d", rec.line, rows.Count(len(rec.cells), "column"), t.columns)
	}
	for k, j := range t.inputs {
		v, err := t.number(rec, j)
		switch {
		case err == nil:
			t.numbers[k]++
		case !t.undecided():
			return err
		case t.bad[k] == nil:
			t.bad[k] = err
		}
		t.cells.Data = append(t.cells.Data, v)
	}
	if t.group >= 0 {
		t.groups = append(t.groups, strings.TrimSpace(rec.cells[t.group]))
	}
	for _, j := range t.at {
		v, err := t.answer(rec, j)
		if err != nil && t.o.TargetOptional && t.o.SkipOdd {
			t.at, t.targets, t.odd = nil, nil, err
			break
		}
		if err != nil {
			return err
		}
		t.targets = append(t.targets, v)
	}
	t.cells.Rows++
	t.lines = append(t.lines, rec.line)
	return nil
}

// answer is the target in column j of a record: a number, or that of the class it
// names.
func (t *tableReader) answer(rec *record, j int) (float32, error) {
	name := strings.TrimSpace(rec.cells[j])
	if t.o.Classes == nil || name == "" || numeric(name) {
		return t.number(rec, j)
	}
	i := slices.Index(t.o.Classes, name)
	if i < 0 {
		return 0, fmt.Errorf("line %d, column %d: %.40q is neither a number nor the name of a class; classes are %s", rec.line, j+1, name, Listed(t.o.Classes))
	}
	return float32(i), nil
}

// number is the finite number in column j of a record.
func (t *tableReader) number(rec *record, j int) (float32, error) {
	v, err := parseCell(rec.cells[j])
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, t.badCell(rec, j)
	}
	return float32(v), nil
}

func (t *tableReader) badCell(rec *record, j int) error {
	cell := rec.cells[j]
	where := fmt.Sprintf("line %d, column %d", rec.line, j+1)
	must := "every cell must be a finite number"
	if t.all != nil {
		where += fmt.Sprintf(" (%s)", t.all[j])
	} else if t.cells.Rows == 0 {
		must += ", or in a header no cell a number"
		if isPandasIndex(rec.cells) {
			must = "where this is the header that pandas writes above an index, write the table with index=False and names of columns, or with header=False"
		}
	}
	if bare := strings.ReplaceAll(cell, ",", ""); bare != cell && numeric(bare) {
		must = "write a point before decimals and nothing between thousands"
	}
	what := fmt.Sprintf("%.40q is not a finite number", cell)
	if _, err := parseCell(cell); errors.Is(err, strconv.ErrRange) {
		what = fmt.Sprintf("%.40q is too large for float32", cell)
	} else if strings.TrimSpace(cell) == "" {
		what = "the cell is empty"
	}
	return fmt.Errorf("%s: %s; %s", where, what, must)
}
