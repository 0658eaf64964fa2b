package inputs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
)

// binding is a model input with the table columns that it is read from: columns of numbers,
// columns of texts, or one column of lists or of images.
type binding struct {
	tensor    ood.Tensor
	columns   []int
	list      bool
	allowsNaN bool // whether a missing value becomes NaN; otherwise it is an error
	// images reports whether the input consists of images. The cells are then file names or
	// encoded images.
	images bool
}

// needsScan reports whether the cells of b are read when the table is opened. File names of
// images are always read. Other cells are read only in text files, because their rows have
// to be counted.
func (t *tableReader) needsScan(b *binding) bool {
	if b.images {
		return b.tensor.Strings != nil
	}
	return t.file == nil
}

// add appends the cells of a record to x.
func (b *binding) add(x *ood.Tensor, rec *record, t *table) error {
	if b.list {
		return b.addList(x, rec, t)
	}
	for _, j := range b.columns {
		c := &rec.cells[j]
		if b.tensor.Strings != nil {
			s, problem := c.asText()
			if problem != "" {
				return fmt.Errorf("%s: %s", t.location(rec.line, j), problem)
			}
			x.Strings = append(x.Strings, s)
			continue
		}
		if b.allowsNaN && c.isMissing() {
			x.Data = append(x.Data, float32(math.NaN()))
			continue
		}
		v, problem := c.finiteNumber()
		if problem != "" {
			return t.badNumber(rec, j, problem)
		}
		x.Data = append(x.Data, v)
	}
	return nil
}

func (b *binding) addList(x *ood.Tensor, rec *record, t *table) error {
	j, before := b.columns[0], len(x.Data)
	var problem string
	if x.Data, problem = rec.cells[j].appendNumbers(x.Data); problem != "" {
		return fmt.Errorf("%s: %s", t.location(rec.line, j), problem)
	}
	n, row := len(x.Data)-before, b.tensor.Shape[1:]
	if b.tensor.Lengths == nil {
		if want := rows.Elements(row); n != want {
			return fmt.Errorf("%s: the list has %s, but %d are needed", t.location(rec.line, j), rows.Count(n, "number"), want)
		}
		return nil
	}
	width := rows.Elements(row[1:])
	if n == 0 || n%width != 0 {
		return fmt.Errorf("%s: the list has %s, but a multiple of %d is needed", t.location(rec.line, j), rows.Count(n, "number"), width)
	}
	x.Lengths = append(x.Lengths, n/width)
	return nil
}

// finish sets the shape of a tensor of n rows.
func (b *binding) finish(x *ood.Tensor, n int) {
	x.Shape = append([]int{n}, b.tensor.Shape[1:]...)
	if b.tensor.Lengths != nil && n > 0 {
		x.Shape[1] = slices.Max(x.Lengths)
	}
}

// candidates returns the columns that may be inputs, in the order of the file or of the
// fit.
func (t *tableReader) candidates() (list []int, err error) {
	if t.header != nil && t.o.Columns != nil {
		return t.fitColumns()
	}
	return t.unclaimed()
}

// unclaimed returns the columns that are neither ignored nor targets. It leaves out the
// columns of identifiers and groups, unless they are inputs as well.
func (t *tableReader) unclaimed() (list []int, err error) {
	excluded := slices.Clone(t.targetColumns)
	if t.idColumn >= 0 && !t.namesInput(t.idColumn) {
		excluded = append(excluded, t.idColumn)
	}
	for _, name := range t.o.Ignore {
		i, err := t.find(name, " to leave out")
		if err != nil {
			return nil, err
		}
		excluded = append(excluded, i)
	}
	list = filter(upTo(t.columns), func(j int) bool { return !slices.Contains(excluded, j) })
	if others := filter(list, func(j int) bool { return j != t.groupColumn }); len(others) < len(list) && !t.groupIsInput(others) {
		list = others
	}
	if len(list) == 0 {
		return nil, errors.New("all its columns are targets, groups or left out, so that there are no inputs")
	}
	return list, nil
}

// groupIsInput reports whether the group column is also an input. This is the case if it
// has the name of an input, or if the model would lack exactly one column of numbers
// without it. others are the other columns that may be inputs.
func (t *tableReader) groupIsInput(others []int) bool {
	if t.namesInput(t.groupColumn) {
		return true
	}
	takes := required(t.o.Takes)
	return len(takes) == 1 && takes[0].width() > 1 && t.hasNumbers(t.groupColumn) &&
		len(filter(others, t.hasNumbers)) == takes[0].width()-1 && len(filter(others, t.hasLists)) == 0
}

// namesInput reports whether a column has the name of an input or is a requested text
// column.
func (t *tableReader) namesInput(column int) bool {
	several := len(required(t.o.Takes)) > 1
	return t.header != nil && (slices.Contains(t.o.Text, t.header[column]) ||
		slices.ContainsFunc(t.o.Takes, func(in Takes) bool { return t.isNamed(in, column, several) }))
}

// filter returns the columns for which keep returns true.
func filter(columns []int, keep func(j int) bool) []int {
	return slices.DeleteFunc(slices.Clone(columns), func(j int) bool { return !keep(j) })
}

func (t *tableReader) hasNumbers(j int) bool { return t.counts[j].numbers > 0 }

func (t *tableReader) hasTexts(j int) bool { return t.counts[j].texts > 0 }

func (t *tableReader) hasLists(j int) bool { return t.counts[j].lists > 0 }

// fitColumns returns the columns of the fit.
func (t *tableReader) fitColumns() (list []int, err error) {
	var missing []string
	for _, name := range t.o.Columns {
		if !t.has(name) {
			missing = append(missing, fmt.Sprintf("%.100q", name))
			continue
		}
		i, err := t.find(name, "")
		if err != nil {
			return nil, err
		}
		if slices.Contains(t.targetColumns, i) {
			return nil, fmt.Errorf("column %.100q cannot be a target: it is an input", name)
		}
		list = append(list, i)
	}
	if missing == nil {
		return list, nil
	}
	what := "column"
	if len(missing) > 1 {
		what = "columns"
	}
	return nil, fmt.Errorf("it lacks the %s %s of the fit; its columns are %s; add what is missing, or rename the column that holds it",
		what, display.List(missing, 10), display.List(t.header, 10))
}

// bind assigns columns to the model's inputs. It first assigns columns that have the name
// of an input. It then assigns the other columns to the remaining inputs: first columns of
// texts, then images, and then numbers in the order of the columns.
func (t *tableReader) bind(ctx context.Context) error {
	if t.o.allTargets {
		return nil
	}
	free, err := t.candidates()
	if err != nil {
		return err
	}
	if err = t.bindAll(ctx, free); err != nil && t.inspectErr != nil {
		return t.inspectErr // the kinds of columns are unknown because of this error
	}
	return err
}

func (t *tableReader) bindAll(ctx context.Context, free []int) (err error) {
	takes := t.o.Takes
	if takes == nil {
		takes = []Takes{{}}
	}
	several := len(required(takes)) > 1
	var rest []Takes
	for _, in := range takes {
		k := slices.IndexFunc(free, func(j int) bool { return t.header != nil && t.isNamed(in, j, several) })
		if k < 0 {
			if !in.Optional {
				rest = append(rest, in)
			}
			continue
		}
		if err := t.bindTo(in, free[k:k+1]); err != nil {
			return err
		}
		free = slices.Concat(free[:k], free[k+1:])
	}
	if len(rest) > 0 && (several || len(free) != rest[0].width()) {
		if err := t.inspectFurther(ctx, free); err != nil {
			return err
		}
	}
	if rest, err = t.bindText(rest); err == nil {
		rest, free, err = t.bindImages(rest, free)
	}
	if err != nil {
		return err
	}
	if t.o.Preprocess != nil && t.images == nil && !slices.ContainsFunc(t.bindings, func(b binding) bool { return b.images }) {
		return fmt.Errorf("preprocessing is for images, but this is a table: %w", ErrNoPixels)
	}
	switch {
	case len(rest) > 0 && several:
		return t.bindInOrder(rest, free)
	case len(rest) == 1 && rest[0].isText():
		return t.bindTo(rest[0], free)
	case len(rest) == 1:
		return t.bindNumbers(rest[0], free)
	}
	return nil
}

// isNamed reports whether column j has the name of an input and cells of a suitable kind.
func (t *tableReader) isNamed(in Takes, j int, several bool) bool {
	name, h := t.header[j], t.counts[j]
	bare, _, _ := strings.Cut(in.Name, ":")
	switch {
	case name == "" || name != in.Name && name != bare:
		return false
	case t.hasBytes(j):
		return false
	case in.isText(), h.lists > 0:
		return true
	case t.takesImages(in):
		return h.texts > 0
	case t.o.HasText && isTokenised(in):
		return h.numbers > 0
	}
	return in.width() == 1 || in.width() == 0 && several
}

// isTokenised reports whether a tokenizer can make the input from texts.
func isTokenised(in Takes) bool { return in.isInteger() && len(in.Shape) == 2 }

// takesImages reports whether an input consists of images, or can consist of preprocessed
// images.
func (t *tableReader) takesImages(in Takes) bool {
	return len(in.Shape) == 4 || in.canBeImages() && t.o.Preprocess != nil
}

// hasBytes reports whether a column contains bytes, not text.
func (t *tableReader) hasBytes(j int) bool {
	return t.file != nil && t.file.Columns()[j].Kind == parquet.Bytes
}

// bindTo binds an input to columns.
func (t *tableReader) bindTo(in Takes, columns []int) error {
	if len(columns) == 0 {
		return t.missingColumn(in)
	}
	if unnamed := filter(columns, func(j int) bool { return t.header != nil && t.header[j] == "" }); len(unnamed) > 1 {
		return errors.New(`two columns are named ""; rename one`) // other duplicate names are reported with the header
	}
	b := binding{tensor: numbers(in.Name, in.rowShape([]int{len(columns)})), columns: columns, allowsNaN: in.NaN}
	lists := t.counts[columns[0]].lists > 0
	switch {
	case in.isText():
		if w := in.width(); w > 0 && w != len(columns) {
			return &ColumnsError{Have: len(columns), Takes: w}
		}
		b.tensor.Strings = []string{}
	case len(columns) > 1:
	case t.takesImages(in) && t.counts[columns[0]].texts > 0:
		b.tensor, b.images = texts(in.Name), true
	case lists:
		row, err := t.listShape(in, columns[0])
		if err != nil {
			return err
		}
		b.list = true
		if b.tensor = numbers(in.Name, row); row[0] < 0 {
			b.tensor.Shape[1], b.tensor.Lengths = 0, []int{}
		}
	}
	t.bindings = append(t.bindings, b)
	return nil
}

// listShape returns the shape of a row that is a list. It begins with −1 if the lists may
// differ in length.
func (t *tableReader) listShape(in Takes, j int) ([]int, error) {
	if len(in.Shape) < 2 {
		if t.file != nil {
			n, err := firstLength(t.file, j)
			return []int{n}, err
		}
		return []int{t.counts[j].length}, nil
	}
	row := slices.Clone(in.Shape[1:])
	if slices.Contains(row[1:], -1) {
		return nil, fmt.Errorf("%v has more axes than the lists in column %.100q; save it in an .npz file", in, t.header[j])
	}
	return row, nil
}

// defaultTextNames lists the usual names of a text column.
var defaultTextNames = []string{"text", "sentence"}

// TextColumnsError reports that it is not clear which column holds the text.
type TextColumnsError struct {
	Header  []string // names of all columns; nil if the table has no header
	Columns []string // names of the columns that hold text
}

func (e *TextColumnsError) Error() string {
	switch {
	case e.Header == nil:
		return "which column is the text is not known: the first line names no column text or sentence, and may be a row"
	case len(e.Columns) == 0:
		return "the model takes text, but no column holds text; its columns are " + display.List(e.Header, 10)
	}
	return "which column is the text is not known; columns that hold text are " + display.List(e.Columns, 10)
}

// bindText binds text columns for a model with a tokenizer, unless token inputs are already
// bound. It returns the inputs that are not bound.
func (t *tableReader) bindText(rest []Takes) ([]Takes, error) {
	if !t.o.HasText || !slices.ContainsFunc(rest, isTokenised) || slices.ContainsFunc(t.bindings, func(b binding) bool { return b.tensor.Lengths != nil }) {
		return rest, nil
	}
	columns, err := t.textColumns()
	if err != nil {
		return nil, err
	}
	for k, j := range columns {
		name := fmt.Sprintf("text %d", k+1)
		if t.header != nil {
			name = t.header[j]
		}
		if _, lines := t.tabular.(*plainLines); t.header != nil && !lines {
			t.texts = append(t.texts, name)
		}
		t.bindings = append(t.bindings, binding{tensor: texts(name), columns: []int{j}})
	}
	return slices.DeleteFunc(rest, isTokenised), nil
}

func (t *tableReader) textColumns() (columns []int, err error) {
	if _, lines := t.tabular.(*plainLines); lines {
		return []int{0}, nil
	}
	for _, name := range t.o.Text {
		j, err := t.find(name, " to take texts from")
		if err != nil {
			return nil, err
		}
		switch {
		case slices.Contains(columns, j):
			return nil, fmt.Errorf("column %.100q is named twice as text", name)
		case slices.Contains(t.targetColumns, j):
			return nil, fmt.Errorf("column %.100q cannot be text: it is a target", name)
		}
		columns = append(columns, j)
	}
	if columns != nil {
		return columns, nil
	}
	for _, name := range defaultTextNames {
		if j := slices.Index(t.header, name); j >= 0 {
			return []int{j}, nil
		}
	}
	free, err := t.unclaimed()
	if err != nil || len(free) == 1 {
		return free, err
	}
	columns = filter(free, t.hasTexts)
	if len(columns) == 1 {
		return columns, nil
	}
	return nil, &TextColumnsError{t.header, t.namesOf(columns)}
}

// bindImages binds the image input to a column of encoded images, or to the only column of
// texts, which must contain paths. It returns the inputs that are not bound, and the free
// columns.
func (t *tableReader) bindImages(rest []Takes, free []int) ([]Takes, []int, error) {
	k := slices.IndexFunc(rest, t.takesImages)
	if k < 0 {
		return rest, free, nil
	}
	if t.file != nil {
		j, err := imageColumn(t.file, rest[k].Name)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(free, j) {
			t.bindings = append(t.bindings, binding{tensor: ood.Tensor{Name: rest[k].Name, Shape: []int{0}}, columns: []int{j}, images: true})
			pathColumn := strings.TrimSuffix(t.header[j], ".bytes") + ".path"
			return slices.Delete(rest, k, k+1), filter(free, func(i int) bool { return i != j && t.header[i] != pathColumn }), nil
		}
	}
	paths := filter(free, t.hasTexts)
	switch {
	case len(paths) == 0:
		return rest, free, nil
	case len(paths) > 1 && t.header == nil:
		return nil, nil, fmt.Errorf("%v are images, and %d columns may contain their names; add a header", rest[k], len(paths))
	case len(paths) > 1:
		return nil, nil, fmt.Errorf("it is unclear which column has the names of the images for %v; rename one of %s to the name of the input", rest[k], display.List(t.namesOf(paths), 10))
	}
	err := t.bindTo(rest[k], paths)
	return slices.Delete(rest, k, k+1), filter(free, func(j int) bool { return j != paths[0] }), err
}

// openImages opens the images of the binding with the given index. files contains their
// names, relative to the table. Encoded images are read from the cells.
func (t *tableReader) openImages(ctx context.Context, at int, files []string) (err error) {
	b := t.bindings[at]
	t.bindings = slices.Delete(t.bindings, at, at+1)
	t.imageColumns = t.namesOf(b.columns)
	if b.tensor.Strings == nil {
		t.images, err = newImageSource(ctx, t.path, newImageCells(t.file, b.columns[0]), b.tensor.Name, t.o)
		return err
	}
	dir := filepath.Dir(t.path)
	t.images, err = newImageSource(ctx, dir, &folder{dir, files}, b.tensor.Name, t.o)
	return err
}

// bindNumbers binds the only unbound input to the only free column of lists, unless the
// number of other free columns is exactly what the input takes. Otherwise it binds the
// input to all free columns. If these are too many and the table has a header, it leaves
// out columns without a name or without numbers.
func (t *tableReader) bindNumbers(in Takes, free []int) error {
	width := in.width()
	if lists := filter(free, t.hasLists); len(lists) == 1 && (len(free)-1 != width || width == 0) {
		t.noteLeftOut(filter(free, func(j int) bool { return j != lists[0] }))
		return t.bindTo(in, lists)
	}
	if width == 0 || len(free) <= width || t.header != nil && t.o.Columns != nil {
		return t.bindTo(in, free)
	}
	if t.header == nil {
		for _, j := range free { // a first row with texts may be a header that was not recognised
			rec := record{line: t.line, cells: t.firstRow}
			if _, problem := rec.cells[j].finiteNumber(); problem != "" {
				return t.badNumber(&rec, j, problem)
			}
		}
		return &ColumnsError{Have: len(free), Takes: width}
	}
	keep, left, err := t.splitUsable(free, width)
	if err != nil {
		return err
	}
	if len(keep) != width {
		return &ColumnsError{Columns: t.namesOf(keep), Others: t.describe(left), Have: len(keep), Takes: width}
	}
	t.noteLeftOut(left)
	return t.bindTo(in, keep)
}

// splitUsable divides columns into usable columns, which have a name and numbers, and
// others. wanted is the number of columns that the inputs take, or 0 for any number. If
// wanted is 0 or at most wanted columns are usable, splitUsable returns an error for
// another column that may be an input. Such a column has numbers in an unsupported
// notation, or no values. Without this error, a usable column could take the place of that
// input.
func (t *tableReader) splitUsable(free []int, wanted int) (usableColumns, others []int, err error) {
	for _, j := range free {
		if t.hasNumbers(j) && (t.header == nil || t.header[j] != "") {
			usableColumns = append(usableColumns, j)
		} else {
			others = append(others, j)
		}
	}
	if wanted > 0 && len(usableColumns) > wanted {
		return usableColumns, others, nil
	}
	var empty []string
	for _, j := range others {
		h := &t.counts[j]
		switch {
		case t.header != nil && t.header[j] == "":
		case h.isDoubtful() && h.problem != "":
			return nil, nil, &DoubtError{fmt.Sprintf("%s: %s", t.location(h.line, j), h.problem)}
		case h.isDoubtful():
			return nil, nil, &DoubtError{fmt.Sprintf("column %s holds dates or times, which are not read; turn them into numbers", t.quotedName(j))}
		case h.allEmpty():
			empty = append(empty, t.quotedName(j))
		}
	}
	if empty != nil {
		return nil, nil, &DoubtError{fmt.Sprintf("it has %s without a value in any row, and no names say whether an input is among them: %s", rows.Count(len(empty), "column"), display.List(empty, 10))}
	}
	return usableColumns, others, nil
}

// noteLeftOut adds a note that lists the columns left out, unless Options.Columns chose the
// inputs.
func (t *tableReader) noteLeftOut(left []int) {
	if len(left) > 0 && t.o.Columns == nil {
		t.notes = append(t.notes, "columns left out: "+display.List(t.describe(left), 10))
	}
}

// describe returns the name and the kind of each column.
func (t *tableReader) describe(columns []int) (list []string) {
	for _, j := range columns {
		h, what := &t.counts[j], "no values"
		switch {
		case t.header != nil && t.header[j] == "":
			list = append(list, fmt.Sprintf("column %d (no name)", j+1))
			continue
		case h.numbers > 0:
			what = "numbers"
		case h.lists > 0:
			what = "lists"
		case h.texts > 0:
			what = "text"
		case h.unreadable > 0:
			what = "dates or numbers in another notation"
		case h.others > 0:
			what = "values of a type that is not read"
		}
		list = append(list, fmt.Sprintf("%s (%s)", t.quotedName(j), what))
	}
	return list
}

// quotedName returns the quoted name of a column, or its number counted from 1.
func (t *tableReader) quotedName(j int) string {
	if t.header == nil {
		return fmt.Sprint(j + 1)
	}
	return fmt.Sprintf("%.100q", t.header[j])
}

// bindInOrder binds inputs to columns by position. Each input gets the next columns, as
// many as its width. A single input of any width gets all usable columns.
func (t *tableReader) bindInOrder(rest []Takes, free []int) error {
	wanted := 0
	anyWidth := len(rest) == 1 && rest[0].width() == 0 && !rest[0].isText()
	for _, in := range rest {
		if !anyWidth && (in.width() == 0 || in.isText()) {
			return t.missingColumn(in)
		}
		wanted += in.width()
	}
	keep, left, err := t.splitUsable(free, wanted)
	if err != nil {
		return err
	}
	if anyWidth && len(keep) > 0 {
		t.noteLeftOut(left)
		return t.bindTo(rest[0], keep)
	}
	if wanted != len(keep) {
		return fmt.Errorf("%w; by position, %s of numbers would be needed, but there are %d", t.missingColumn(rest[0]), rows.Count(wanted, "column"), len(keep))
	}
	var assigned []string
	for _, in := range rest {
		w := in.width()
		if err := t.bindTo(in, keep[:w]); err != nil {
			return err
		}
		assigned = append(assigned, fmt.Sprintf("%s: %s", in.Name, display.List(t.namesOf(keep[:w]), 10)))
		keep = keep[w:]
	}
	t.notes = append(t.notes, "columns without the names of the model's inputs are taken in their order: "+strings.Join(assigned, "; "))
	t.noteLeftOut(left)
	return nil
}

// missingColumn returns the error that no column has the name of an input.
func (t *tableReader) missingColumn(in Takes) error {
	if t.header == nil {
		return fmt.Errorf("the columns for %v are unknown, because the file has no header", in)
	}
	return fmt.Errorf("%v is not among its columns %s", in, display.List(t.header, 10))
}

func (t *tableReader) namesOf(columns []int) (names []string) {
	for _, j := range columns {
		if t.header != nil {
			names = append(names, t.header[j])
		} else {
			names = append(names, fmt.Sprint(j+1))
		}
	}
	return names
}

// inputNames returns the names of the input columns, except texts for a tokenizer. It
// returns nil if there is no header.
func (t *tableReader) inputNames() (names []string) {
	if t.header == nil {
		return nil
	}
	for _, b := range t.bindings {
		if b.tensor.Strings == nil || inputNamed(t.o.Takes, b.tensor.Name) != nil {
			names = append(names, t.namesOf(b.columns)...)
		}
	}
	return append(names, t.imageColumns...)
}

// source returns the source of the table, joined with its images.
func (t *tableReader) source() source {
	table := t.table // copy, without the fields that are only needed to open it
	switch {
	case t.images == nil:
		return &table
	case len(t.bindings) == 0:
		return t.images
	}
	return joined{&table, t.images}
}

// ColumnsError reports that a table has too many or too few columns for the model.
type ColumnsError struct {
	Columns []string // names of the columns with a name and numbers; nil if they are not known
	Others  []string // columns without a name or without numbers, each with its kind
	Have    int      // number of columns that can be inputs
	Takes   int
}

func (e *ColumnsError) Error() string {
	if e.Columns == nil {
		return fmt.Sprintf("it has %s, and the model takes %d", rows.Count(e.Have, "column"), e.Takes)
	}
	others := ""
	if e.Have < e.Takes {
		others = "; not counted: " + display.List(e.Others, 10)
	}
	return fmt.Sprintf("it has %s with a name and numbers, and the model takes %d: %s%s", rows.Count(e.Have, "column"), e.Takes, display.List(e.Columns, 10), others)
}

// DoubtError reports a column without readable numbers that may still be an input. The
// names of columns do not show whether it is.
type DoubtError struct{ message string }

func (e *DoubtError) Error() string { return e.message }
