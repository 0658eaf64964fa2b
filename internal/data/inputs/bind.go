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

// bound is a tensor and the table columns that it is made of: columns of numbers, columns of
// texts, or one column of lists.
type bound struct {
	tensor  ood.Tensor
	columns []int
	list    bool
	gaps    bool // a cell without a number is NaN
	// images tells that the tensor contains images: the cells are file names or encoded
	// images.
	images bool
}

// scans reports whether the cells are read when a table is opened. If the file has its number
// of rows, only names of files are read.
func (t *tableReader) scans(b *bound) bool {
	if b.images {
		return b.tensor.Strings != nil
	}
	return t.file == nil
}

// add appends the cells of a record to a tensor.
func (b *bound) add(x *ood.Tensor, rec *record, t *table) error {
	if b.list {
		return b.addList(x, rec, t)
	}
	for _, j := range b.columns {
		c := &rec.cells[j]
		if b.tensor.Strings != nil {
			s, wrong := c.words()
			if wrong != "" {
				return fmt.Errorf("%s: %s", t.where(rec.line, j), wrong)
			}
			x.Strings = append(x.Strings, s)
			continue
		}
		if b.gaps && c.gap() {
			x.Data = append(x.Data, float32(math.NaN()))
			continue
		}
		v, wrong := c.finite()
		if wrong != "" {
			return t.badNumber(rec, j, wrong)
		}
		x.Data = append(x.Data, v)
	}
	return nil
}

func (b *bound) addList(x *ood.Tensor, rec *record, t *table) error {
	j, before := b.columns[0], len(x.Data)
	var wrong string
	if x.Data, wrong = rec.cells[j].items(x.Data); wrong != "" {
		return fmt.Errorf("%s: %s", t.where(rec.line, j), wrong)
	}
	n, row := len(x.Data)-before, b.tensor.Shape[1:]
	if b.tensor.Lengths == nil {
		if want := rows.Elements(row); n != want {
			return fmt.Errorf("%s: the list has %s, but %d are needed", t.where(rec.line, j), rows.Count(n, "number"), want)
		}
		return nil
	}
	width := rows.Elements(row[1:])
	if n == 0 || n%width != 0 {
		return fmt.Errorf("%s: the list has %s, but a multiple of %d is needed", t.where(rec.line, j), rows.Count(n, "number"), width)
	}
	x.Lengths = append(x.Lengths, n/width)
	return nil
}

// finish sets the shape of a tensor of n rows.
func (b *bound) finish(x *ood.Tensor, n int) {
	x.Shape = append([]int{n}, b.tensor.Shape[1:]...)
	if b.tensor.Lengths != nil && n > 0 {
		x.Shape[1] = slices.Max(x.Lengths)
	}
}

// candidates returns the columns that may be inputs, in their order or in the order of the
// fit.
func (t *tableReader) candidates() (list []int, err error) {
	if t.header != nil && t.o.Columns != nil {
		return t.named()
	}
	return t.unnamed()
}

// unnamed returns the columns that no option names.
func (t *tableReader) unnamed() (list []int, err error) {
	left := slices.Clone(t.targetColumns)
	if t.idColumn >= 0 && !t.namesInput(t.idColumn) {
		left = append(left, t.idColumn)
	}
	for _, name := range t.o.Ignore {
		i, err := t.find(name, " to leave out")
		if err != nil {
			return nil, err
		}
		left = append(left, i)
	}
	list = among(upTo(t.columns), func(j int) bool { return !slices.Contains(left, j) })
	if others := among(list, func(j int) bool { return j != t.groupColumn }); len(others) < len(list) && !t.readsGroup(others) {
		list = others
	}
	if len(list) == 0 {
		return nil, errors.New("all its columns are targets, groups or left out, so that there are no inputs")
	}
	return list, nil
}

// readsGroup reports whether the column of groups is also an input: it has the name of one, or
// without it there is one column too few.
func (t *tableReader) readsGroup(others []int) bool {
	if t.namesInput(t.groupColumn) {
		return true
	}
	takes := required(t.o.Takes)
	return len(takes) == 1 && takes[0].width() > 1 && t.hasNumbers(t.groupColumn) &&
		len(among(others, t.hasNumbers)) == takes[0].width()-1 && len(among(others, t.hasLists)) == 0
}

// namesInput reports whether a column has the name of an input, or is a requested text column.
func (t *tableReader) namesInput(column int) bool {
	several := len(required(t.o.Takes)) > 1
	return t.header != nil && (slices.Contains(t.o.Text, t.header[column]) ||
		slices.ContainsFunc(t.o.Takes, func(in Takes) bool { return t.isNamed(in, column, several) }))
}

// among returns the columns for which so is true.
func among(columns []int, so func(j int) bool) []int {
	return slices.DeleteFunc(slices.Clone(columns), func(j int) bool { return !so(j) })
}

func (t *tableReader) hasNumbers(j int) bool { return t.holds[j].numbers > 0 }

func (t *tableReader) hasTexts(j int) bool { return t.holds[j].texts > 0 }

func (t *tableReader) hasLists(j int) bool { return t.holds[j].lists > 0 }

// named returns the columns of the fit.
func (t *tableReader) named() (list []int, err error) {
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
	return nil, fmt.Errorf("it lacks the %s %s of the fit; its columns are %s; rename them, or remove the header to use columns by position",
		what, display.List(missing, 10), display.List(t.header, 10))
}

// bind selects the columns for the model's inputs: first columns with their names, then texts,
// images, and numbers in order.
func (t *tableReader) bind(ctx context.Context) error {
	if t.o.allTargets {
		return nil
	}
	free, err := t.candidates()
	if err != nil {
		return err
	}
	if err = t.bindAll(ctx, free); err != nil && t.broken != nil {
		return t.broken // the kinds of columns are unknown
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
		if err := t.settle(ctx, free); err != nil {
			return err
		}
	}
	if rest, err = t.bindText(rest); err == nil {
		rest, free, err = t.bindImages(rest, free)
	}
	if err != nil {
		return err
	}
	if t.o.Preprocess != nil && t.images == nil && !slices.ContainsFunc(t.bounds, func(b bound) bool { return b.images }) {
		return fmt.Errorf("preprocessing is for images, but this is a table: %w", ErrNoPixels)
	}
	switch {
	case len(rest) > 0 && several:
		return t.deal(rest, free)
	case len(rest) == 1 && rest[0].text():
		return t.bindTo(rest[0], free)
	case len(rest) == 1:
		return t.bindNumbers(rest[0], free)
	}
	return nil
}

// isNamed reports whether column j has the name of an input.
func (t *tableReader) isNamed(in Takes, j int, several bool) bool {
	name, h := t.header[j], t.holds[j]
	bare, _, _ := strings.Cut(in.Name, ":")
	switch {
	case name == "" || name != in.Name && name != bare:
		return false
	case t.encoded(j):
		return false
	case in.text(), h.lists > 0:
		return true
	case t.pictures(in):
		return h.texts > 0
	case t.o.HasText && tokenised(in):
		return h.numbers > 0
	}
	return in.width() == 1 || in.width() == 0 && several
}

// tokenised reports whether a tokenizer may make the input from texts.
func tokenised(in Takes) bool { return in.whole() && len(in.Shape) == 2 }

// pictures reports whether an input consists of images, or may consist of prepared images.
func (t *tableReader) pictures(in Takes) bool {
	return len(in.Shape) == 4 || in.images() && t.o.Preprocess != nil
}

// encoded reports whether a column contains bytes, not text.
func (t *tableReader) encoded(j int) bool {
	return t.file != nil && t.file.Columns()[j].Kind == parquet.Bytes
}

// bindTo binds an input to columns.
func (t *tableReader) bindTo(in Takes, columns []int) error {
	if len(columns) == 0 {
		return t.notAmong(in)
	}
	if unnamed := among(columns, func(j int) bool { return t.header != nil && t.header[j] == "" }); len(unnamed) > 1 {
		return errors.New(`two columns are named ""; rename one`) // other duplicates are errors of the header
	}
	b := bound{tensor: numbers(in.Name, in.row([]int{len(columns)})), columns: columns, gaps: in.NaN}
	lists := t.holds[columns[0]].lists > 0
	switch {
	case in.text():
		if w := in.width(); w > 0 && w != len(columns) {
			return &ColumnsError{Have: len(columns), Takes: w}
		}
		b.tensor.Strings = []string{}
	case len(columns) > 1:
	case t.pictures(in) && t.holds[columns[0]].texts > 0:
		b.tensor, b.images = texts(in.Name), true
	case lists:
		row, err := t.listed(in, columns[0])
		if err != nil {
			return err
		}
		b.list = true
		if b.tensor = numbers(in.Name, row); row[0] < 0 {
			b.tensor.Shape[1], b.tensor.Lengths = 0, []int{}
		}
	}
	t.bounds = append(t.bounds, b)
	return nil
}

// listed returns the shape of a row of lists, beginning with -1 if they may differ in length.
func (t *tableReader) listed(in Takes, j int) ([]int, error) {
	if len(in.Shape) < 2 {
		if t.file != nil {
			n, err := firstLength(t.file, j)
			return []int{n}, err
		}
		return []int{t.holds[j].length}, nil
	}
	row := slices.Clone(in.Shape[1:])
	if slices.Contains(row[1:], -1) {
		return nil, fmt.Errorf("%v has more axes than the lists in column %.100q; save it in an .npz file", in, t.header[j])
	}
	return row, nil
}

// usualText lists the usual names of a text column.
var usualText = []string{"text", "sentence"}

// TextColumnsError reports that it is not clear which column holds the text.
type TextColumnsError struct {
	Columns []string // columns of texts; nil if the table has no header
}

func (e *TextColumnsError) Error() string {
	if e.Columns == nil {
		return "which column is the text is not known, and it has no header"
	}
	return "which column is the text is not known; columns that hold text are " + display.List(e.Columns, 10)
}

// bindText binds text columns for a model with a tokenizer, unless columns have the names of
// token inputs. It returns the other inputs.
func (t *tableReader) bindText(rest []Takes) ([]Takes, error) {
	if !t.o.HasText || !slices.ContainsFunc(rest, tokenised) || slices.ContainsFunc(t.bounds, func(b bound) bool { return b.tensor.Lengths != nil }) {
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
		t.bounds = append(t.bounds, bound{tensor: texts(name), columns: []int{j}})
	}
	return slices.DeleteFunc(rest, tokenised), nil
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
	for _, name := range usualText {
		if j := slices.Index(t.header, name); j >= 0 {
			return []int{j}, nil
		}
	}
	free, err := t.unnamed()
	if err != nil || len(free) == 1 {
		return free, err
	}
	switch columns = among(free, t.hasTexts); {
	case len(columns) == 1:
		return columns, nil
	case t.header == nil:
		return nil, &TextColumnsError{}
	}
	return nil, &TextColumnsError{t.namesOf(columns)}
}

// bindImages binds the only column of texts to the images, as their paths.
func (t *tableReader) bindImages(rest []Takes, free []int) ([]Takes, []int, error) {
	k := slices.IndexFunc(rest, t.pictures)
	if k < 0 {
		return rest, free, nil
	}
	if t.file != nil {
		j, err := imageColumn(t.file, rest[k].Name)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(free, j) {
			t.bounds = append(t.bounds, bound{tensor: ood.Tensor{Name: rest[k].Name, Shape: []int{0}}, columns: []int{j}, images: true})
			beside := strings.TrimSuffix(t.header[j], ".bytes") + ".path"
			return slices.Delete(rest, k, k+1), among(free, func(i int) bool { return i != j && t.header[i] != beside }), nil
		}
	}
	paths := among(free, t.hasTexts)
	switch {
	case len(paths) == 0:
		return rest, free, nil
	case len(paths) > 1 && t.header == nil:
		return nil, nil, fmt.Errorf("%v are images, and %d columns may contain their names; add a header", rest[k], len(paths))
	case len(paths) > 1:
		return nil, nil, fmt.Errorf("it is unclear which column has the names of the images for %v; rename one of %s to the name of the input", rest[k], display.List(t.namesOf(paths), 10))
	}
	err := t.bindTo(rest[k], paths)
	return slices.Delete(rest, k, k+1), among(free, func(j int) bool { return j != paths[0] }), err
}

// openImages opens the images of a column with their file names, relative to the table, or
// with their bytes.
func (t *tableReader) openImages(ctx context.Context, at int, files []string) (err error) {
	b := t.bounds[at]
	t.bounds = slices.Delete(t.bounds, at, at+1)
	t.imageColumns = t.namesOf(b.columns)
	if b.tensor.Strings == nil {
		t.images, err = newImageSource(ctx, t.path, newImageCells(t.file, b.columns[0]), b.tensor.Name, t.o)
		return err
	}
	dir := filepath.Dir(t.path)
	t.images, err = newImageSource(ctx, dir, &folder{dir, files}, b.tensor.Name, t.o)
	return err
}

// bindNumbers binds the only input to all remaining columns. If there are too many, columns
// without a name or without numbers are left out.
func (t *tableReader) bindNumbers(in Takes, free []int) error {
	width := in.width()
	if lists := among(free, t.hasLists); len(lists) == 1 && (len(free)-1 != width || width == 0) {
		t.noteLeft(among(free, func(j int) bool { return j != lists[0] }))
		return t.bindTo(in, lists)
	}
	if width == 0 || len(free) <= width || t.header != nil && t.o.Columns != nil {
		return t.bindTo(in, free)
	}
	if t.header == nil {
		for _, j := range free { // otherwise the odd cell is part of a header
			rec := record{line: t.line, cells: t.top}
			if _, wrong := rec.cells[j].finite(); wrong != "" {
				return t.badNumber(&rec, j, wrong)
			}
		}
		return &ColumnsError{Have: len(free), Takes: width}
	}
	keep, left, err := t.usable(free, width)
	if err != nil {
		return err
	}
	if len(keep) != width {
		return &ColumnsError{Columns: t.namesOf(keep), Others: t.described(left), Have: len(keep), Takes: width}
	}
	t.noteLeft(left)
	return t.bindTo(in, keep)
}

// usable separates columns with a name and numbers from the others. If no more than wanted are
// usable, each of the others must clearly be no input. Otherwise a column could replace one in
// another notation, or without any value.
func (t *tableReader) usable(free []int, wanted int) (keep, left []int, err error) {
	for _, j := range free {
		if t.hasNumbers(j) && (t.header == nil || t.header[j] != "") {
			keep = append(keep, j)
		} else {
			left = append(left, j)
		}
	}
	if wanted > 0 && len(keep) > wanted {
		return keep, left, nil
	}
	var empty []string
	for _, j := range left {
		h := &t.holds[j]
		switch {
		case t.header != nil && t.header[j] == "":
		case h.doubtful() && h.wrong != "":
			return nil, nil, &DoubtError{fmt.Sprintf("%s: %s", t.where(h.line, j), h.wrong)}
		case h.doubtful():
			return nil, nil, &DoubtError{fmt.Sprintf("column %s holds dates or times, which are not read; turn them into numbers", t.quoted(j))}
		case h.unknown():
			empty = append(empty, t.quoted(j))
		}
	}
	if empty != nil {
		return nil, nil, &DoubtError{fmt.Sprintf("it has %s without a value in any row, and no names say whether an input is among them: %s", rows.Count(len(empty), "column"), display.List(empty, 10))}
	}
	return keep, left, nil
}

// noteLeft adds a note that lists the columns left out, unless Options.Columns chose the inputs.
func (t *tableReader) noteLeft(left []int) {
	if len(left) > 0 && t.o.Columns == nil {
		t.notes = append(t.notes, "columns left out: "+display.List(t.described(left), 10))
	}
}

// described returns the name and the kind of each column.
func (t *tableReader) described(columns []int) (list []string) {
	for _, j := range columns {
		h, what := &t.holds[j], "no values"
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
		case h.odd > 0:
			what = "dates or numbers in another notation"
		case h.others > 0:
			what = "values of a type that is not read"
		}
		list = append(list, fmt.Sprintf("%s (%s)", t.quoted(j), what))
	}
	return list
}

// quoted returns the quoted name of a column, or its number counted from 1.
func (t *tableReader) quoted(j int) string {
	if t.header == nil {
		return fmt.Sprint(j + 1)
	}
	return fmt.Sprintf("%.100q", t.header[j])
}

// deal binds several inputs to columns in order, as many to each as it has.
func (t *tableReader) deal(rest []Takes, free []int) error {
	wanted := 0
	anyWidth := len(rest) == 1 && rest[0].width() == 0 && !rest[0].text()
	for _, in := range rest {
		if !anyWidth && (in.width() == 0 || in.text()) {
			return t.notAmong(in)
		}
		wanted += in.width()
	}
	keep, left, err := t.usable(free, wanted)
	if err != nil {
		return err
	}
	if anyWidth && len(keep) > 0 {
		t.noteLeft(left)
		return t.bindTo(rest[0], keep)
	}
	if wanted != len(keep) {
		return fmt.Errorf("%w; by position, %s of numbers would be needed, but there are %d", t.notAmong(rest[0]), rows.Count(wanted, "column"), len(keep))
	}
	var dealt []string
	for _, in := range rest {
		w := in.width()
		if err := t.bindTo(in, keep[:w]); err != nil {
			return err
		}
		dealt = append(dealt, fmt.Sprintf("%s: %s", in.Name, display.List(t.namesOf(keep[:w]), 10)))
		keep = keep[w:]
	}
	t.notes = append(t.notes, "columns without the names of the model's inputs are taken in their order: "+strings.Join(dealt, "; "))
	t.noteLeft(left)
	return nil
}

// notAmong returns the error that no column has the name of an input.
func (t *tableReader) notAmong(in Takes) error {
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

// inputNames returns the columns of the inputs without texts for a tokenizer, nil without a
// header.
func (t *tableReader) inputNames() (names []string) {
	if t.header == nil {
		return nil
	}
	for _, b := range t.bounds {
		if b.tensor.Strings == nil || named(t.o.Takes, b.tensor.Name) != nil {
			names = append(names, t.namesOf(b.columns)...)
		}
	}
	return append(names, t.imageColumns...)
}

// source returns the source of the table, joined with its images.
func (t *tableReader) source() source {
	table := t.table // without the state that only opening needs
	switch {
	case t.images == nil:
		return &table
	case len(t.bounds) == 0:
		return t.images
	}
	return joined{&table, t.images}
}

// ColumnsError reports that a table has more or fewer columns than the model takes.
type ColumnsError struct {
	Columns []string // columns of numbers; nil if the table has no header
	Others  []string // columns without numbers, each with its kind
	Have    int      // number of columns of numbers
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

// DoubtError reports a column that may or may not be an input: names do not tell, and it has
// no readable numbers.
type DoubtError struct{ says string }

func (e *DoubtError) Error() string { return e.says }
