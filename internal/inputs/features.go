package inputs

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/parts"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// OpenFeatures reads precomputed rows from an .npz archive: features (or
// feat_list) n×h, logits (or logit_list) n×c, labels (or label_list) n, and
// earlier layers layer_0, layer_1 and so on, each n×h_l; any of them may be
// absent, but not both features and logits. An .npy file holds features n×h
// alone. NaN and infinite values are errors that name the row. Labels are only
// checked to be whole numbers: out-of-domain rows are often labelled -1. float32
// rows that are not compressed take their own size in memory and little more.
func OpenFeatures(path string, wants ...Widths) (ood.Batch, error) {
	b, _, err := OpenFeatureRows(path, Slice{}, wants...)
	return b, err
}

// OpenFeatureRows is OpenFeatures of some rows, without a look at the others. It
// also returns the number of all.
func OpenFeatureRows(path string, of Slice, wants ...Widths) (ood.Batch, int, error) {
	f, err := openFeatures(path, of, wants)
	if err != nil {
		return ood.Batch{}, 0, err
	}
	b, err := f.read()
	return b, f.rows, err
}

// FeatureBlocks is OpenFeatureRows of rows that are read as they are asked for,
// so many at a time, without labels.
func FeatureBlocks(path string, of Slice, rows int, wants ...Widths) (int, iter.Seq2[ood.Batch, error], error) {
	f, err := openFeatures(path, of, wants)
	return f.rows, f.blocks(rows), err
}

// FeatureLabels are the labels alone of what OpenFeatureRows reads, nil where
// there are none.
func FeatureLabels(path string, of Slice) ([]int, error) {
	f, err := openFeatures(path, of, nil)
	if err != nil || f.labels == nil {
		return nil, err
	}
	return f.readLabels()
}

func openFeatures(path string, of Slice, wants []Widths) (f featureFile, err error) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		var l *npy.Lazy
		if l, err = npy.OpenFile(path); err == nil {
			err = f.add(path, "features", "features", l)
		}
	} else {
		err = f.openNPZ(path, wants)
	}
	if err != nil {
		return f, err
	}
	if f.first, f.last, err = of.Of(f.rows); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	have := parts.Widths{}
	for _, p := range f.parts {
		have[p.name] = p.Shape[1]
	}
	for _, w := range wants {
		if err := have.Check(w.Widths, path+": the rows", w.Says); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Widths are how many columns precomputed rows must have.
type Widths struct {
	// Says begins the clause of an error that ends in the width, such as "the
	// bundle was fitted on".
	Says         string
	parts.Widths           // of parts; of others any will do
	Skip         ood.Needs // parts that are not read
}

// featureFile is the headers of precomputed rows.
type featureFile struct {
	parts  []featurePart
	labels *npy.Lazy // or nil
	rows   int
	first  int // row that is read, and the one after the last
	last   int
}

type featurePart struct {
	name string // of a batch's part
	*npy.Lazy
}

// openOOD are the names that OpenOOD has for what a batch calls by others.
var openOOD = map[string]string{"features": "feat_list", "logits": "logit_list", "labels": "label_list"}

func (f *featureFile) openNPZ(path string, wants []Widths) error {
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return err
	}
	needs := ^ood.Needs(0)
	for _, w := range wants {
		needs &^= w.Skip
	}
	if needs&ood.NeedLayers != 0 && z.Has(parts.Layer(maxLayers)) {
		return fmt.Errorf("%s: it holds %s; at most %d earlier layers are read", path, parts.Layer(maxLayers), maxLayers)
	}
	has := func(name string) bool { return z.Has(name) || z.Has(openOOD[name]) }
	names := parts.Names(has, needs&ood.NeedLayers != 0)
	if !has("features") && !has("logits") {
		return fmt.Errorf("%s: it holds neither features (or feat_list) nor logits (or logit_list)", path)
	}
	if has("labels") {
		names = append(names, "labels")
	}
	for _, name := range names {
		stored := name
		if !z.Has(name) {
			stored = openOOD[name]
		}
		l, err := z.Entry(stored)
		if err == nil {
			err = f.add(path, name, stored, l)
		}
		if err != nil {
			return err
		}
	}
	layers := 0
	for slices.Contains(names, parts.Layer(layers)) {
		layers++
	}
	for _, name := range z.Names() {
		var i int
		if n, err := fmt.Sscanf(name, "layer_%d", &i); needs&ood.NeedLayers != 0 && n == 1 && err == nil && i >= layers && name == parts.Layer(i) {
			return fmt.Errorf("%s: it holds %s but not %s", path, name, parts.Layer(layers))
		}
	}
	return nil
}

// add checks the shape of what is stored under a name against those before it.
func (f *featureFile) add(path, name, stored string, l *npy.Lazy) error {
	check := checkMatrix
	if name == "labels" {
		check = checkColumn
	}
	if err := check(l); err != nil {
		return err
	}
	switch rows := l.Rows(); {
	case rows == 0:
		return fmt.Errorf("%s: %s: %w", path, stored, ErrEmpty)
	case f.rows > 0 && rows != f.rows:
		return fmt.Errorf("%s: %s has %d rows, the arrays beside it have %d", path, stored, rows, f.rows)
	}
	f.rows = l.Rows()
	if name == "labels" {
		f.labels = l
	} else {
		f.parts = append(f.parts, featurePart{name, l})
	}
	return nil
}

func (f *featureFile) read() (b ood.Batch, err error) {
	if f.last-f.first == f.rows {
		for _, p := range f.parts {
			m, err := matrixOf(p.Lazy)
			if err != nil {
				return ood.Batch{}, err
			}
			parts.Set(&b.Features, &b.Logits, &b.Layers, p.name, m)
		}
	} else {
		for b, err = range f.blocks(f.last - f.first) {
			if err != nil {
				return b, err
			}
		}
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
		var cursors []*npy.Cursor
		defer func() {
			for _, c := range cursors {
				c.Close()
			}
		}()
		for _, p := range f.parts {
			c, err := p.Open()
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
					m, err = finiteRows(p.Lazy, npy.Float32s(a), start)
				}
				if err != nil {
					yield(ood.Batch{}, err)
					return
				}
				parts.Set(&b.Features, &b.Logits, &b.Layers, p.name, m)
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// maxLayers bounds the arrays of an archive that are looked at one by one.
const maxLayers = 1000

// FeatureArrays are the arrays of an archive that OpenFeatures reads a batch
// from, labels included where it has any.
func FeatureArrays(b ood.Batch) map[string]rows.Array {
	arrays := map[string]rows.Array{}
	for _, p := range b.Parts(^ood.Needs(0)) {
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

// LoadWeights reads a network's last layer from an .npz archive: weight c×h
// and bias c. Without a bias it is zero. Widths that are known are compared before
// they are read.
func LoadWeights(path string, wants ...Widths) (*ood.Linear, error) {
	z, err := npy.OpenNPZ(path)
	if errors.Is(err, npy.ErrFormat) {
		return nil, fmt.Errorf("%w; the last layer is read from an .npz file of its weight c×h and bias c", err)
	}
	if err != nil {
		return nil, err
	}
	weight, err := z.Entry("weight")
	if err != nil {
		return nil, err
	}
	if err := checkMatrix(weight); err != nil {
		return nil, err
	}
	if weight.Rows() == 0 {
		return nil, fmt.Errorf("%s: its shape is %v, which makes no logits", weight.Name(), weight.Shape)
	}
	for _, want := range wants {
		if h, n := weight.Shape[1], want.Widths["features"]; n > 0 && h != n {
			return nil, fmt.Errorf("%s: it takes %s, and %s %d", weight.Name(), rows.Count(h, "feature"), want.Says, n)
		}
		if c, n := weight.Shape[0], want.Widths["logits"]; n > 0 && c != n {
			return nil, fmt.Errorf("%s: it makes %s, and %s %d", weight.Name(), rows.Count(c, "logit"), want.Says, n)
		}
	}
	w, err := matrixOf(weight)
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
		return nil, fmt.Errorf("%s: %d biases for a weight of %d×%d; want one for each of the %d outputs", l.Name(), l.Len(), w.Rows, w.Cols, w.Rows)
	}
	if lin.Bias, err = l.Float32s(); err != nil {
		return nil, err
	}
	if i := rows.FirstNotFinite(lin.Bias); i >= 0 {
		return nil, fmt.Errorf("%s: entry %d is %v", l.Name(), i, lin.Bias[i])
	}
	return lin, nil
}

func checkMatrix(l *npy.Lazy) error {
	if len(l.Shape) != 2 || l.Shape[1] == 0 {
		return fmt.Errorf("%s: its shape is %v; want two axes, rows and columns", l.Name(), l.Shape)
	}
	return nil
}

// matrixOf reads an n×d array of finite numbers.
func matrixOf(l *npy.Lazy) (blas32.General, error) {
	x, err := l.Float32s()
	if err != nil {
		return blas32.General{}, err
	}
	return finiteRows(l, x, 0)
}

// finiteRows are the rows of an n×d array from first on, which must be finite.
func finiteRows(l *npy.Lazy, x []float32, first int) (blas32.General, error) {
	cols := l.Shape[1]
	if i := rows.FirstNotFinite(x); i >= 0 {
		return blas32.General{}, fmt.Errorf("%s: row %d, column %d is %v; every value must be a finite float32", l.Name(), first+i/cols, i%cols, x[i])
	}
	return blas32.General{Rows: len(x) / cols, Cols: cols, Stride: cols, Data: x}, nil
}

func checkColumn(l *npy.Lazy) error {
	if len(l.Shape) != 1 && !(len(l.Shape) == 2 && l.Shape[1] == 1) {
		return fmt.Errorf("%s: its shape is %v; want one number a row", l.Name(), l.Shape)
	}
	return nil
}

func intsOf(l *npy.Lazy) ([]int, error) {
	a, err := l.Read()
	if err != nil {
		return nil, err
	}
	v, err := npy.Ints(a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	return v, nil
}
