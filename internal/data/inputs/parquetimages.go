package inputs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/preprocess"
)

// imageCells provides the encoded images in a column of a Parquet file.
type imageCells struct {
	*parquet.File
	// columns contains the column of images and, if there is one, the column with paths of
	// separate image files.
	columns []int
}

func newImageCells(f *parquet.File, column int) *imageCells {
	c := &imageCells{f, []int{column}}
	all := f.Columns()
	stem, ok := strings.CutSuffix(all[column].Name, ".bytes")
	j := slices.IndexFunc(all, func(c parquet.Column) bool { return c.Name == stem+".path" && c.Kind == parquet.Text && !c.List })
	if ok && j >= 0 {
		c.columns = append(c.columns, j)
	}
	return c
}

// openParquetImages opens a Parquet file whose rows have an image and no other model
// inputs. For other files it returns nil.
func openParquetImages(ctx context.Context, path string, o Options) (*Set, error) {
	input := onlyInput(o.Takes)
	if len(required(o.Takes)) > 1 || o.Preprocess == nil && len(input.Shape) != 4 {
		return nil, nil
	}
	f, err := parquet.Open(path)
	if err != nil {
		return nil, err
	}
	column, err := imageColumn(f, input.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if column < 0 {
		return nil, nil
	}
	if f.Rows() == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	a := annotations{o: o}
	if err := a.addColumns(ctx, f); err != nil {
		return nil, err
	}
	src, err := newImageSource(ctx, path, newImageCells(f, column), input.Name, o)
	if err != nil {
		return nil, err
	}
	s := (&Set{src: src}).withoutUnreadable()
	if err := a.annotate(s, path); err != nil {
		return nil, err
	}
	if len(a.names) == 1 {
		s.nameLabels(hubClasses(f, a.names[0]), o.Classes)
	}
	return s, nil
}

// imageColumn returns the column of encoded images, or -1 if there is none. If several
// columns contain bytes, it is the one with the input's name or a usual name.
func imageColumn(f *parquet.File, input string) (int, error) {
	var found []int
	var names []string
	for j, c := range f.Columns() {
		if c.Kind == parquet.Bytes && !c.List {
			found, names = append(found, j), append(names, c.Name)
		}
	}
	for _, name := range []string{input, "image", "img"} {
		for k, have := range names {
			if have == name || have == name+".bytes" {
				return found[k], nil
			}
		}
	}
	switch len(found) {
	case 0:
		return -1, nil
	case 1:
		return found[0], nil
	}
	return 0, fmt.Errorf("several columns may contain the images, %s; rename the right one to image", display.List(names, 10))
}

// addColumns adds the targets and groups of all rows.
func (a *annotations) addColumns(ctx context.Context, f *parquet.File) error {
	columnIndex, columns := map[string]int{}, []int{}
	for j, c := range f.Columns() {
		requested := c.Name == "label" || c.Name == a.o.Groups || slices.Contains(a.o.Targets, c.Name)
		if requested && !c.List && (c.Kind == parquet.Number || c.Kind == parquet.Text) {
			columnIndex[c.Name], columns = j, append(columns, j)
		}
	}
	for rec, err := range recordsOf(ctx, parquetTable{f}, columns, position{}) {
		if err != nil {
			return err
		}
		value := func(name string) (cell, error) {
			j, ok := columnIndex[name]
			switch {
			case !ok:
				return cell{}, fmt.Errorf("there is no column %.100q of numbers or texts", name)
			case rec.cells[j].kind == absent:
				return cell{}, fmt.Errorf("its %.100q is empty", name)
			}
			return rec.cells[j], nil
		}
		if err := a.add(value, func(err error) error { return fmt.Errorf("row %d of %s: %w", rec.line, f.Path(), err) }, "label"); err != nil {
			return err
		}
	}
	return nil
}

// nameLabels sets the names of classes and removes the targets, if there is a name for each
// label. If the model's classes include all names, labels are renumbered to match the
// model's classes.
func (s *Set) nameLabels(names, classes []string) {
	if names == nil || s.Labels == nil || slices.ContainsFunc(s.Labels, func(l int) bool { return l < 0 || l >= len(names) }) {
		return
	}
	s.Targets, s.ClassNames = blas32.General{}, names
	if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(classes, name) }) {
		return
	}
	for i, l := range s.Labels {
		s.Labels[i] = slices.Index(classes, names[l])
	}
	s.ClassNames = classes
}

func (c *imageCells) rows() int { return c.Rows() }

func (c *imageCells) file(int) string { return "" }

func (c *imageCells) path(i int) string { return fmt.Sprintf("row %d of %s", i, c.Path()) }

func (c *imageCells) open() (imageOpener, error) {
	cursor, err := c.Open(c.columns...)
	return imageCursor{cursor, filepath.Dir(c.Path())}, err
}

// imageCursor reads images from cells. Relative paths in cells start at dir.
type imageCursor struct {
	*parquet.Cursor
	dir string
}

func (c imageCursor) picture(i int) (openFunc, error) {
	cells, err := c.Read(context.Background(), i, 1)
	if err != nil {
		return nil, err
	}
	if encoded := cells[0].Bytes[0]; len(encoded) > 0 {
		r := bytes.NewReader(bytes.Clone(encoded)) // the cursor may reuse the bytes
		return func() (io.ReadSeekCloser, error) { return content{r, io.NopCloser(nil)}, nil }, nil
	}
	file := ""
	if len(cells) > 1 {
		file = filepath.FromSlash(string(cells[1].Bytes[0]))
	}
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(c.dir, file)
	}
	return func() (io.ReadSeekCloser, error) {
		if file == "" {
			return nil, fmt.Errorf("%w: the cell is empty", preprocess.ErrImage)
		}
		return regularfile.Open(file)
	}, nil
}

// hubClasses returns the class names of a column of numbers, which Hugging Face's datasets
// store in the metadata of a file. It returns nil if there are none.
func hubClasses(f *parquet.File, column string) []string {
	text, _ := f.Metadata("huggingface")
	var about struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"` // columns have different kinds of metadata
		} `json:"info"`
	}
	var feature struct {
		Names []string `json:"names"`
	}
	if json.Unmarshal([]byte(text), &about) != nil || json.Unmarshal(about.Info.Features[column], &feature) != nil {
		return nil // the metadata are from another program, or name no classes
	}
	return feature.Names
}
