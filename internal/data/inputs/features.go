package inputs

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// OpenFeatures reads precomputed rows from an .npz archive, a Parquet file or an .npy file.
// The arrays of an archive are features (or feat_list) n×h, logits (or logit_list) n×c, and
// labels (or label_list or label) n. Earlier layers are layer_0, layer_1 and so on, each
// n×h_l. An archive needs features or logits, and the rest is optional. A Parquet file has
// columns with these names, with lists of equal length. An .npy file contains only features
// n×h. For a NaN or an infinity, the error names the row. Labels must be integers but are
// not checked otherwise, because OOD rows are often labelled -1. Uncompressed float32 rows
// need little more memory than their own size.
func OpenFeatures(path string, expected ...Widths) (ood.Batch, error) {
	b, _, err := OpenFeatureRows(path, Slice{}, expected...)
	return b, err
}

// OpenFeatureRows is like OpenFeatures, but reads only the selected rows. It also returns
// the number of all rows.
func OpenFeatureRows(path string, selected Slice, expected ...Widths) (ood.Batch, int, error) {
	f, err := openFeatures(path, selected, expected)
	if err != nil {
		return ood.Batch{}, 0, err
	}
	b, err := f.read()
	return b, f.rows, err
}

// FeatureBlocks is like OpenFeatureRows, but reads the rows lazily, in blocks of the given
// number of rows, and without labels.
func FeatureBlocks(path string, selected Slice, rows int, expected ...Widths) (int, iter.Seq2[ood.Batch, error], error) {
	f, err := openFeatures(path, selected, expected)
	return f.rows, f.blocks(rows), err
}

// FeatureLabels returns only the labels of the rows that OpenFeatureRows reads, or nil
// if there are none.
func FeatureLabels(path string, selected Slice) ([]int, error) {
	f, err := openFeatures(path, selected, nil)
	if err != nil || f.labels == nil {
		return nil, err
	}
	return f.readLabels()
}

func openFeatures(path string, selected Slice, expected []Widths) (f featureFile, err error) {
	if err = f.open(path, expected); err != nil {
		return f, err
	}
	if f.first, f.last, err = selected.Of(f.rows); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	have := batchparts.Widths{}
	for _, p := range f.parts {
		have[p.name] = p.shape()[1]
	}
	for _, w := range expected {
		if err := have.Check(w.Widths, path+": the rows", w.Says); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Widths are the required numbers of columns of precomputed rows.
type Widths struct {
	// Says is the beginning of the clause that gives the required width in an error, for
	// example "the fit used".
	Says              string
	batchparts.Widths      // by part; other parts may have any width
	Layerless         bool // whether earlier layers are ignored
}

// featureFile holds the headers of a file of precomputed rows.
type featureFile struct {
	parts  []featurePart
	labels array // or nil
	rows   int
	first  int // first row to read
	last   int // row after the last row to read
}

type featurePart struct {
	name string // name of the part in a batch, such as "features"
	array
}

// storedNames returns the names that a part of a batch can have in a file, including the
// names that OpenOOD and data sets use.
func storedNames(name string) []string {
	switch name {
	case "features":
		return []string{name, "feat_list"}
	case "logits":
		return []string{name, "logit_list"}
	case "labels":
		return []string{name, "label_list", "label"}
	}
	return []string{name}
}

// ErrNoFeatures reports that a file of arrays has no features and no logits.
var ErrNoFeatures = errors.New("it has neither features (or feat_list) nor logits (or logit_list)")

func (f *featureFile) open(path string, expected []Widths) error {
	z, err := openArrays(path)
	if err != nil {
		return err
	}
	layers := !slices.ContainsFunc(expected, func(w Widths) bool { return w.Layerless })
	if layers && z.Has(batchparts.Layer(maxLayers)) {
		return fmt.Errorf("%s: it has %s; at most %d earlier layers can be read", path, batchparts.Layer(maxLayers), maxLayers)
	}
	has := func(name string) bool { return slices.ContainsFunc(storedNames(name), z.Has) }
	names := batchparts.Names(has, layers)
	if !has("features") && !has("logits") {
		return fmt.Errorf("%s: %w", path, ErrNoFeatures)
	}
	for i, firstMissing := 0, ""; layers && i < maxLayers; i++ {
		if name := batchparts.Layer(i); !z.Has(name) {
			firstMissing = cmp.Or(firstMissing, name)
		} else if firstMissing != "" {
			return fmt.Errorf("%s: it has %s but not %s", path, name, firstMissing)
		}
	}
	if has("labels") {
		names = append(names, "labels")
	}
	for _, name := range names {
		stored := storedNames(name)
		a, err := z.entry(stored[slices.IndexFunc(stored, z.Has)])
		if err == nil {
			err = f.add(name, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds the array of a part, if its shape agrees with the arrays that were added before.
func (f *featureFile) add(name string, a array) error {
	check := checkMatrix
	if name == "labels" {
		check = checkColumn
	}
	if err := check(a); err != nil {
		return err
	}
	switch rows := a.shape()[0]; {
	case rows == 0:
		return fmt.Errorf("%s: %w", a.Name(), ErrEmpty)
	case f.rows > 0 && rows != f.rows:
		return fmt.Errorf("%s has %d rows, but the other arrays have %d", a.Name(), rows, f.rows)
	}
	f.rows = a.shape()[0]
	if name == "labels" {
		f.labels = a
	} else {
		f.parts = append(f.parts, featurePart{name, a})
	}
	return nil
}

func (f *featureFile) read() (b ood.Batch, err error) {
	for _, p := range f.parts {
		m, err := matrixOf(p.array, f.first, f.last)
		if err != nil {
			return ood.Batch{}, err
		}
		batchparts.Set(&b, p.name, m)
	}
	if f.labels != nil {
		b.Labels, err = f.readLabels()
	}
	return b, err
}

func (f *featureFile) readLabels() ([]int, error) {
	labels, err := intsOf(f.labels)
	if err != nil {
		return nil, err
	}
	return labels[f.first:f.last], nil
}

func (f *featureFile) blocks(rows int) iter.Seq2[ood.Batch, error] {
	return func(yield func(ood.Batch, error) bool) {
		var cursors []cursor
		defer func() {
			for _, c := range cursors {
				c.Close()
			}
		}()
		for _, p := range f.parts {
			c, err := p.open()
			if err != nil {
				yield(ood.Batch{}, err)
				return
			}
			cursors = append(cursors, c)
		}
		for start := f.first; start < f.last; start += rows {
			var b ood.Batch
			for i, p := range f.parts {
				a, err := cursors[i].ReadRows(start, min(rows, f.last-start))
				var m blas32.General
				if err == nil {
					m, err = finiteRows(p, npy.Float32s(a), start)
				}
				if err != nil {
					yield(ood.Batch{}, err)
					return
				}
				batchparts.Set(&b, p.name, m)
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// maxLayers limits the number of earlier layers in an archive.
const maxLayers = 1000

// FeatureArrays returns b as named arrays, including labels. OpenFeatures can read an
// archive of these arrays.
func FeatureArrays(b ood.Batch) map[string]rows.Array {
	arrays := map[string]rows.Array{}
	for _, p := range batchparts.Of(&b) {
		arrays[p.Name] = rows.ArrayOf(*p.General)
	}
	if b.Labels != nil {
		labels := make([]int64, len(b.Labels))
		for i, l := range b.Labels {
			labels[i] = int64(l)
		}
		arrays["labels"] = rows.Array{Shape: []int{len(labels)}, Data: labels}
	}
	return arrays
}

// LoadWeights reads the last layer of a network from an .npz archive: weight c×h and bias
// c. A missing bias is zero. Required widths are checked before the arrays are read.
func LoadWeights(path string, expected ...Widths) (*ood.Linear, error) {
	z, err := npy.OpenNPZ(path)
	if errors.Is(err, npy.ErrFormat) {
		return nil, fmt.Errorf("%w; the last layer is read from an .npz file of its weight c×h and bias c", err)
	}
	if err != nil {
		return nil, err
	}
	weight, err := npzFile{z}.entry("weight")
	if err != nil {
		return nil, err
	}
	if err := checkMatrix(weight); err != nil {
		return nil, err
	}
	outputs, width := weight.shape()[0], weight.shape()[1]
	if outputs == 0 {
		return nil, fmt.Errorf("%s: its shape is %v; the weight of a last layer must be outputs×features", weight.Name(), weight.shape())
	}
	for _, want := range expected {
		if n := want.Widths["features"]; n > 0 && width != n {
			return nil, fmt.Errorf("%s: it takes %s, but %s %d", weight.Name(), rows.Count(width, "feature"), want.Says, n)
		}
		if n := want.Widths["logits"]; n > 0 && outputs != n {
			return nil, fmt.Errorf("%s: it has %s, but %s %d", weight.Name(), rows.Count(outputs, "logit"), want.Says, n)
		}
	}
	w, err := matrixOf(weight, 0, outputs)
	if err != nil {
		return nil, err
	}
	lin := &ood.Linear{Weight: w, Bias: make([]float32, w.Rows)}
	if !z.Has("bias") {
		return lin, nil
	}
	l, err := z.Entry("bias")
	if err != nil {
		return nil, err
	}
	if l.Len() != w.Rows {
		return nil, fmt.Errorf("%s: %d biases for a weight of %d×%d; there must be one for each of the %d outputs", l.Name(), l.Len(), w.Rows, w.Cols, w.Rows)
	}
	if lin.Bias, err = l.Float32s(); err != nil {
		return nil, err
	}
	if i := rows.FirstNotFinite(lin.Bias); i >= 0 {
		return nil, fmt.Errorf("%s: entry %d is %v", l.Name(), i, lin.Bias[i])
	}
	return lin, nil
}

func checkMatrix(a array) error {
	if s := a.shape(); len(s) != 2 || s[1] == 0 {
		return fmt.Errorf("%s: its shape is %v; it must have two axes, rows and columns", a.Name(), s)
	}
	return nil
}

// matrixOf reads rows first to last−1 of an n×d array, which must be finite.
func matrixOf(a array, first, last int) (blas32.General, error) {
	x, err := floats(a, first, last)
	if err != nil {
		return blas32.General{}, err
	}
	return finiteRows(a, x, first)
}

// finiteRows returns x, which holds rows of the n×d array a, as a matrix. It returns an
// error if a number is not finite. first is the number of the first row in x.
func finiteRows(a array, x []float32, first int) (blas32.General, error) {
	cols := a.shape()[1]
	if i := rows.FirstNotFinite(x); i >= 0 {
		return blas32.General{}, fmt.Errorf("%s: row %d, column %d is %v; every value must be a finite float32", a.Name(), first+i/cols, i%cols, x[i])
	}
	return blas32.General{Rows: len(x) / cols, Cols: cols, Stride: cols, Data: x}, nil
}

func checkColumn(a array) error {
	if s := a.shape(); len(s) != 1 && !(len(s) == 2 && s[1] == 1) {
		return fmt.Errorf("%s: its shape is %v; there must be one number for each row", a.Name(), s)
	}
	return nil
}

// valuesOf reads all elements of an array.
func valuesOf(a array) (rows.Array, error) {
	c, err := a.open()
	if err != nil {
		return rows.Array{}, err
	}
	defer c.Close()
	return c.ReadRows(0, a.shape()[0])
}

func intsOf(a array) ([]int, error) {
	all, err := valuesOf(a)
	if err != nil {
		return nil, err
	}
	v, err := npy.Ints(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name(), err)
	}
	return v, nil
}
