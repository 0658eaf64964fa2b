package inputs

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
)

// IsTable reports whether path has the extension of a table.
func IsTable(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv", ".tsv", ".txt", ".data", ".dat", ".jsonl", ".ndjson", ".parquet":
		return true
	}
	return false
}

func openTabular(ctx context.Context, path string, o Options) (tabular, error) {
	lines := textFile{path: path, plain: o.HasText || slices.ContainsFunc(o.Takes, Takes.isText)}
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case ext == ".parquet":
		f, err := parquet.Open(path)
		return parquetTable{f}, err
	case ext == ".jsonl" || ext == ".ndjson":
		return openJSONLines(ctx, path, o.requested())
	case ext == ".txt" && o.HasText && (o.Targets == nil || o.TargetOptional) && o.Groups == "" && o.ID == "":
		f := &plainLines{lines}
		if named, err := f.hasHeader(ctx, o.Text); err != nil || !named {
			return f, err
		}
		lines = f.textFile // keeps the content of a pipe
	}
	return &delimited{lines, -1, false}, nil
}

// requested returns the names of columns to look for in a table.
func (o Options) requested() []string {
	names := slices.Concat(o.Columns, o.Text, o.Ignore)
	for _, name := range []string{o.Groups, o.ID} {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, name := range o.Targets {
		if name != "last" {
			names = append(names, name)
		}
	}
	takes := required(o.Takes)
	for _, in := range takes {
		if len(takes) > 1 || in.width() == 1 {
			bare, _, _ := strings.Cut(in.Name, ":")
			names = append(names, bare)
		}
	}
	return names
}

func openTable(ctx context.Context, path string, o Options) (*Set, error) {
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		if s, err := openParquetImages(ctx, path, o); s != nil || err != nil {
			return s, err
		}
	}
	t, err := readTable(ctx, path, o)
	if err != nil {
		return nil, err
	}
	s := &Set{src: t.source(), Groups: t.groups, IDs: t.ids, Notes: t.notes, Odd: t.targetsErr, Columns: t.inputNames(), Texts: t.texts}
	if t.targetColumns == nil || o.NoTargets {
		return s.withoutUnreadable(), nil
	}
	if t.header != nil {
		s.TargetNames = t.namesOf(t.targetColumns)
	}
	y, err := t.collectedTargets()
	if err != nil {
		return nil, err
	}
	err = s.SetTargets(y)
	return s.withoutUnreadable(), err
}

// collectedTargets returns the targets that were read.
func (t *tableReader) collectedTargets() (Targets, error) {
	k := len(t.targets) / t.n
	return newTargets(blas32.General{Rows: len(t.targets) / k, Cols: k, Stride: k, Data: t.targets}, t.path)
}

// tableReader opens a table: it finds the columns, and reads labels, targets, groups and
// identifiers.
type tableReader struct {
	table
	o             Options
	file          *parquet.File  // nil for a text file, which has neither column types nor a number of rows
	columnIndex   map[string]int // column index by possible name, -1 for a duplicate name
	firstRow      []cell         // cells of the first row, which may be a header
	line          int            // line of the first row
	counts        []cellCounts   // counts of the cells in the first rows, by column
	lastInspected position       // position of the last row that was inspected
	inspectErr    error          // error that ended the inspection of rows
	hasPhrases    bool           // whether some texts have several words
	// Indices of the columns of targets, groups and identifiers; -1 for none.
	targetColumns         []int
	groupColumn, idColumn int

	images        source // for a column of images, or nil
	imageColumns  []string
	targets       []float32
	targetsPerRow int // number of targets in each row
	groups, ids   []string
	texts         []string // names of the text columns for a tokenizer
	targetsErr    error    // reason why targets are ignored
	notes         []string
}

// cellCounts counts the kinds of cells in a column. unreadable counts numbers and dates in
// an unsupported notation. problem describes the first of them, and line is its line.
// length is the length of a list.
type cellCounts struct {
	numbers, texts, unreadable, lists, others int
	length, line                              int
	problem                                   string
}

// allEmpty reports whether all inspected cells were empty.
func (h *cellCounts) allEmpty() bool { return h.numbers+h.texts+h.unreadable+h.lists+h.others == 0 }

// isDoubtful reports whether most cells are numbers or dates in an unsupported notation.
func (h *cellCounts) isDoubtful() bool { return h.numbers == 0 && h.unreadable > h.texts }

// readTable opens a table, which can be
//
//   - text with cells separated by commas, semicolons, tabs or spaces, with or
//     without a header and quotes
//   - JSON objects on separate lines
//   - lines of text
//   - a Parquet file
//
// Columns that are not needed may contain anything.
func readTable(ctx context.Context, path string, o Options) (*tableReader, error) {
	file, err := openTabular(ctx, path, o)
	if err != nil {
		return nil, err
	}
	t := &tableReader{table: table{tabular: file, path: path}, o: o, groupColumn: -1, idColumn: -1}
	if f, ok := file.(parquetTable); ok {
		t.file = f.File
	}
	if err := t.read(ctx); err != nil {
		return nil, t.inFile(err)
	}
	return t, nil
}

func (t *tableReader) read(ctx context.Context) error {
	first, err := t.sniff(ctx)
	if err == nil {
		err = t.findColumns()
	}
	if err == nil {
		err = t.bind(ctx)
	}
	if err != nil {
		return err
	}
	t.noteLossyNumbers(ctx, first)
	return t.scan(ctx, first)
}

// sniff inspects the first rows of the table, and returns the position of the first row
// below any header.
func (t *tableReader) sniff(ctx context.Context) (first position, err error) {
	if t.file != nil {
		return first, t.sniffParquet(ctx)
	}
	var second position
	n := 0
	for rec, err := range recordsOf(ctx, t, nil, position{}) {
		t.lastInspected = rec.at
		switch n++; {
		case n == 1 && err != nil:
			return first, err
		case n == 1:
			first, t.columns = rec.at, len(rec.cells)
			t.firstRow, t.line, t.counts = slices.Clone(rec.cells), rec.line, make([]cellCounts, len(rec.cells))
			continue
		case n == 2:
			second = rec.at
		}
		if err == nil {
			err = t.checkWidth(rec)
		}
		if err != nil {
			t.inspectErr = err // scan will report the error, after errors in earlier rows
			break
		}
		if t.inspect(rec); n > sniffedRows {
			break
		}
	}
	t.header = t.Names()
	names := t.header
	if t.header == nil {
		for _, c := range t.firstRow {
			// A name can have several lines, but an error has one.
			names = append(names, strings.TrimSpace(strings.ReplaceAll(c.text, "\n", " ")))
		}
	}
	t.indexNames(names)
	switch {
	case t.firstRow == nil:
		return first, ErrEmpty
	case t.header == nil && t.isHeader(names):
		t.header, first = names, second
		if n == 1 {
			return first, fmt.Errorf("%w below its header", ErrEmpty)
		}
	default:
		t.inspect(&record{line: t.line, cells: t.firstRow})
	}
	return first, t.checkNames()
}

// checkNames returns an error for a header in which two columns share a name. Several columns
// may have no name, because no option can request them.
func (t *tableReader) checkNames() error {
	for _, name := range t.header {
		if name != "" && t.columnIndex[name] < 0 {
			return fmt.Errorf("two columns are named %.100q; rename one", name)
		}
	}
	return nil
}

// indexNames records the index of each column by its name, or -1 if two columns share the
// name.
func (t *tableReader) indexNames(names []string) {
	t.columns, t.columnIndex = len(names), map[string]int{}
	for j, name := range names {
		if _, duplicate := t.columnIndex[name]; duplicate {
			j = -1
		}
		t.columnIndex[name] = j
	}
}

// inspect counts the kinds of a row's cells.
func (t *tableReader) inspect(row *record) {
	for j := range row.cells {
		c, h := &row.cells[j], &t.counts[j]
		t.hasPhrases = t.hasPhrases || severalWords(c.text)
		switch {
		case c.isNumeric():
			h.numbers++
		case c.kind == other && t.hasDates(j):
			h.unreadable++
		case c.kind == other:
			h.others++
		case c.kind == list:
			h.lists++
			h.length = len(c.list)
		case c.isText():
			if guess, _ := otherNotation(c.text); guess == "" {
				h.texts++
				break
			}
			if h.unreadable++; h.unreadable == 1 || row.line < h.line {
				h.line, h.problem = row.line, notNumber(c.text)
			}
		}
	}
}

// hasDates reports whether the column type is a date or a time.
func (t *tableReader) hasDates(j int) bool { return t.file != nil && t.file.Columns()[j].Dates() }

// inspectFurther inspects more rows for columns whose first cells were all empty.
func (t *tableReader) inspectFurther(ctx context.Context, columns []int) error {
	unknown := func(j int) bool { return t.counts[j].allEmpty() }
	columns = filter(columns, unknown)
	if len(columns) == 0 || t.inspectErr != nil {
		return nil
	}
	for rec, err := range recordsOf(ctx, t, columns, t.lastInspected) {
		if err == nil {
			err = t.checkWidth(rec)
		}
		if err != nil {
			t.inspectErr = err
			break
		}
		if slices.ContainsFunc(columns, func(j int) bool { return !rec.cells[j].isMissing() }) {
			t.inspect(rec)
			columns = filter(columns, unknown)
		}
		if len(columns) == 0 {
			break
		}
	}
	return ctx.Err()
}

// findColumns finds the columns of targets, groups and identifiers.
func (t *tableReader) findColumns() error {
	var err error
	if t.o.Groups != "" {
		if t.groupColumn, err = t.find(t.o.Groups, " to take "+cmp.Or(t.o.groupsAre, "groups")+" from"); err != nil {
			return err
		}
	}
	if t.o.ID != "" {
		if t.idColumn, err = t.find(t.o.ID, " to tell rows apart by"); err != nil {
			return err
		}
	}
	if t.o.allTargets {
		t.targetColumns = upTo(t.columns)
	}
	names, have := t.o.Targets, 0
	for _, name := range names {
		if t.has(name) {
			have++
		}
	}
	last := have == 0 && len(names) == 1 && names[0] == "last"
	switch {
	case last && !(t.o.TargetOptional && t.lastIsInput()):
		t.targetColumns = []int{t.columns - 1}
		return nil
	case t.o.TargetOptional && (have == 0 || t.o.SkipOdd && have < len(names)):
		return nil
	}
	for _, name := range t.o.Targets {
		if t.header == nil {
			return fmt.Errorf("it has no header, so there is no column %.100q; use last for the last column", name)
		}
		i, err := t.find(name, "")
		if err != nil {
			return err
		}
		if slices.Contains(t.targetColumns, i) {
			return fmt.Errorf("column %.100q is named twice as a target", name)
		}
		t.targetColumns = append(t.targetColumns, i)
	}
	return nil
}

// lastIsInput reports whether the model takes the last column, so that it is no target.
func (t *tableReader) lastIsInput() bool {
	if t.header != nil && t.o.Columns != nil {
		return slices.Contains(t.o.Columns, t.header[t.columns-1])
	}
	takes := required(t.o.Takes)
	return len(takes) == 1 && t.columns <= takes[0].width()
}

// find returns the index of the column with a name. use is added to its errors, for example
// " to take groups from".
func (t *tableReader) find(name, use string) (int, error) {
	switch i := t.columnIndex[name]; {
	case t.header == nil:
		return 0, fmt.Errorf("it has no header, so there is no column %.100q%s", name, use)
	case !t.has(name):
		return 0, fmt.Errorf("there is no column %.100q%s; its columns are %s", name, use, display.List(t.header, 10))
	case i < 0:
		return 0, fmt.Errorf("two columns are named %.100q; rename one", name)
	default:
		return i, nil
	}
}

// has reports whether a name is in the header.
func (t *tableReader) has(name string) bool {
	_, ok := t.columnIndex[name]
	return ok && t.header != nil
}

// scan reads labels, targets, groups and identifiers. If it has to read all lines to count
// them, it also checks the inputs.
func (t *tableReader) scan(ctx context.Context, from position) error {
	var columns []int
	if !t.o.NoTargets {
		columns = slices.Clone(t.targetColumns)
	}
	for _, j := range []int{t.groupColumn, t.idColumn} {
		if j >= 0 {
			columns = append(columns, j)
		}
	}
	for _, b := range t.bindings {
		if t.needsScan(&b) {
			columns = append(columns, b.columns...)
		}
	}
	scratch := t.tensors()
	if t.file != nil && len(columns) == 0 {
		t.n = t.file.Rows()
	} else if err := t.scanRecords(ctx, columns, from, scratch); err != nil {
		return err
	}
	if t.n == 0 {
		return ErrEmpty
	}
	for i, b := range t.bindings {
		if b.images {
			return t.openImages(ctx, i, scratch[i].Strings)
		}
	}
	return nil
}

// scanRecords reads the given columns of all records.
func (t *tableReader) scanRecords(ctx context.Context, columns []int, from position, scratch []ood.Tensor) error {
	for rec, err := range recordsOf(ctx, t, columns, from) {
		if err == nil {
			err = t.add(rec, scratch)
		}
		if err != nil {
			return err
		}
		if t.file == nil {
			t.rowIndex.add(t.n, rec.at.offset, rec.line)
		}
		t.n++
	}
	return nil
}

func (t *tableReader) add(rec *record, scratch []ood.Tensor) error {
	if err := t.checkWidth(rec); err != nil {
		return err
	}
	for j := range t.bindings {
		b, x := &t.bindings[j], &scratch[j]
		if !t.needsScan(b) {
			continue
		}
		if err := b.add(x, rec, &t.table); err != nil {
			return err
		}
		if !b.images {
			x.Data, x.Strings, x.Lengths = x.Data[:0], x.Strings[:0], x.Lengths[:0]
		}
	}
	if err := t.addNames(rec); err != nil || t.o.NoTargets {
		return err
	}
	return t.addTargets(rec)
}

// addNames adds the group and the identifier of a row.
func (t *tableReader) addNames(rec *record) error {
	if t.groupColumn >= 0 {
		c := &rec.cells[t.groupColumn]
		if c.kind == list || c.kind == other {
			return fmt.Errorf("%s: lists, dates, times and nested values cannot be %s", t.location(rec.line, t.groupColumn), cmp.Or(t.o.groupsAre, "groups"))
		}
		t.groups = append(t.groups, strings.Clone(c.asName()))
	}
	if t.idColumn >= 0 {
		c := &rec.cells[t.idColumn]
		switch {
		case c.kind == list || c.kind == other:
			return fmt.Errorf("%s: lists, dates, times and nested values cannot be identifiers", t.location(rec.line, t.idColumn))
		case c.kind == number && c.text == "" && lossyNumber(c.number):
			return fmt.Errorf("%s: whole numbers beyond 2^53 lose their last digits; save identifiers as texts", t.location(rec.line, t.idColumn))
		}
		t.ids = append(t.ids, strings.Clone(c.asName()))
	}
	return nil
}

func (t *tableReader) addTargets(rec *record) error {
	for _, j := range t.targetColumns {
		c := &rec.cells[j]
		v, problem := t.o.target(c)
		if t.o.allTargets && c.kind == list {
			t.targets, problem = c.appendNumbers(t.targets)
		} else if problem == "" {
			t.targets = append(t.targets, v)
		}
		if problem == "" {
			continue
		}
		err := t.badNumber(rec, j, problem)
		switch {
		case t.o.namesClass(c):
			err = fmt.Errorf("%s: %s", t.location(rec.line, j), problem)
		case t.o.mayNameClass(c):
			err = &ClassNameError{err.Error()}
		}
		if !t.o.TargetOptional || !t.o.SkipOdd {
			return err
		}
		t.targetColumns, t.targets, t.targetsErr = nil, nil, err
		break
	}
	if t.n == 0 {
		if t.targetsPerRow = len(t.targets); t.targetsPerRow == 0 && len(t.targetColumns) > 0 {
			return fmt.Errorf("%s %d: its list of targets is empty", t.unit(), rec.line)
		}
	} else if n := len(t.targets) - t.n*t.targetsPerRow; t.targetColumns != nil && n != t.targetsPerRow {
		return fmt.Errorf("%s %d: it has %s, but earlier rows have %d", t.unit(), rec.line, rows.Count(n, "target"), t.targetsPerRow)
	}
	return nil
}
