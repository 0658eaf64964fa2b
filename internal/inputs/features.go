package inputs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/rows"
)

// OpenFeatures reads precomputed rows from an .npz archive: features (or
// feat_list) n×h, logits (or logit_list) n×c, labels (or label_list) n, and
// earlier layers layer_0, layer_1 and so on, each n×h_l; any of
// them may be absent, but not both features and logits. An .npy file holds features n×h alone. NaN
// and infinite values are errors that name the row. Labels are only checked to
// be whole numbers: out-of-domain rows are often labelled -1. float32 rows that
// are not compressed take their own size in memory and little more.
func OpenFeatures(path string, wants ...Widths) (ood.Batch, error) {
	var f featureFile
	var err error
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		var l *npy.Lazy
		if l, err = npy.OpenFile(path); err == nil {
			err = f.add(path, "features", l, 2)
		}
		f.features = l
	} else {
		err = f.openNPZ(path, wants)
	}
	if err != nil {
		return ood.Batch{}, err
	}
	for _, w := range wants {
		if err := f.check(path, w); err != nil {
			return ood.Batch{}, err
		}
	}
	return f.read()
}

// Widths are how many columns precomputed rows must have.
type Widths struct {
	// Says begins the clause of an error that ends in the width, such as "the
	// bundle was fitted on".
	Says string
	// Features and Logits are widths; 0 is any.
	Features, Logits int
	// Layers are the widths of earlier layers; nil is any, and where there are
	// none, those of the file are not read.
	Layers []int
}

// featureFile is the headers of precomputed rows.
type featureFile struct {
	features, logits, labels *npy.Lazy // nil where they are absent
	layers                   []*npy.Lazy
	rows                     int
}

func (f *featureFile) openNPZ(path string, wants []Widths) error {
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return err
	}
	for _, a := range []struct {
		dst   **npy.Lazy
		names [2]string
		rank  int
	}{
		{&f.features, [2]string{"features", "feat_list"}, 2},
		{&f.logits, [2]string{"logits", "logit_list"}, 2},
		{&f.labels, [2]string{"labels", "label_list"}, 1},
	} {
		name, ok := either(z, a.names)
		if !ok {
			continue
		}
		if *a.dst, err = z.Entry(name); err != nil {
			return err
		}
		if err := f.add(path, name, *a.dst, a.rank); err != nil {
			return err
		}
	}
	layers := !slices.ContainsFunc(wants, func(w Widths) bool { return w.Layers != nil && len(w.Layers) == 0 })
	if layers && z.Has(layerArray(maxLayers)) {
		return fmt.Errorf("%s: it holds %s; at most %d earlier layers are read", path, layerArray(maxLayers), maxLayers)
	}
	for name := layerArray(0); layers && z.Has(name); name = layerArray(len(f.layers)) {
		l, err := z.Entry(name)
		if err != nil {
			return err
		}
		if err := f.add(path, name, l, 2); err != nil {
			return err
		}
		f.layers = append(f.layers, l)
	}
	for _, name := range z.Names() {
		var i int
		if n, err := fmt.Sscanf(name, layerPattern, &i); layers && n == 1 && err == nil && i >= len(f.layers) && name == layerArray(i) {
			return fmt.Errorf("%s: it holds %s but not %s", path, name, layerArray(len(f.layers)))
		}
	}
	if f.features == nil && f.logits == nil {
		return fmt.Errorf("%s: it holds neither features (or feat_list) nor logits (or logit_list)", path)
	}
	return nil
}

// add checks the shape of an array against those before it.
func (f *featureFile) add(path, name string, l *npy.Lazy, rank int) error {
	check := checkMatrix
	if rank == 1 {
		check = checkColumn
	}
	if err := check(l); err != nil {
		return err
	}
	switch rows := l.Rows(); {
	case rows == 0:
		return fmt.Errorf("%s: %s: %w", path, name, ErrEmpty)
	case f.rows > 0 && rows != f.rows:
		return fmt.Errorf("%s: %s has %d rows, the arrays beside it have %d", path, name, rows, f.rows)
	}
	f.rows = l.Rows()
	return nil
}

func (f *featureFile) check(path string, w Widths) error {
	if l := f.features; l != nil && w.Features > 0 && l.Shape[1] != w.Features {
		return fmt.Errorf("%s: the rows have %d features, and %s %d", path, l.Shape[1], w.Says, w.Features)
	}
	if l := f.logits; l != nil && w.Logits > 0 && l.Shape[1] != w.Logits {
		return fmt.Errorf("%s: the rows have %d logits, and %s %d", path, l.Shape[1], w.Says, w.Logits)
	}
	if len(f.layers) == 0 || w.Layers == nil {
		return nil
	}
	if len(f.layers) != len(w.Layers) {
		return fmt.Errorf("%s: the rows have %d earlier layers, and %s %d: write as many with --layers", path, len(f.layers), w.Says, len(w.Layers))
	}
	for i, l := range f.layers {
		if l.Shape[1] != w.Layers[i] {
			return fmt.Errorf("%s: layer %d of the rows has %d columns, and %s %d", path, i, l.Shape[1], w.Says, w.Layers[i])
		}
	}
	return nil
}

func (f *featureFile) read() (ood.Batch, error) {
	var b ood.Batch
	var err error
	matrix := func(l *npy.Lazy) (m blas32.General) {
		if l != nil && err == nil {
			m, err = matrixOf(l)
		}
		return m
	}
	b.Features, b.Logits = matrix(f.features), matrix(f.logits)
	if f.labels != nil && err == nil {
		b.Labels, err = intsOf(f.labels)
	}
	for _, l := range f.layers {
		b.Layers = append(b.Layers, matrix(l))
	}
	if err != nil {
		return ood.Batch{}, err
	}
	return b, nil
}

// maxLayers bounds the arrays of an archive that are looked at one by one.
const maxLayers = 1000

// layerPattern is what an archive calls earlier layers, from 0.
const layerPattern = "layer_%d"

func layerArray(i int) string { return fmt.Sprintf(layerPattern, i) }

// FeatureArrays are the arrays of an archive that OpenFeatures reads a batch
// from, labels included where it has any.
func FeatureArrays(b ood.Batch) map[string]rows.Array {
	arrays := map[string]rows.Array{"features": rows.ArrayOf(b.Features), "logits": rows.ArrayOf(b.Logits)}
	for i, m := range b.Layers {
		arrays[layerArray(i)] = rows.ArrayOf(m)
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
		if h := weight.Shape[1]; want.Features > 0 && h != want.Features {
			return nil, fmt.Errorf("%s: it takes %d features, and %s %d", weight.Name(), h, want.Says, want.Features)
		}
		if c := weight.Shape[0]; want.Logits > 0 && c != want.Logits {
			return nil, fmt.Errorf("%s: it makes %d logits, and %s %d", weight.Name(), c, want.Says, want.Logits)
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
	if i := firstNonFinite(lin.Bias); i >= 0 {
		return nil, fmt.Errorf("%s: entry %d is %v", l.Name(), i, lin.Bias[i])
	}
	return lin, nil
}

func either(z *npy.NPZ, names [2]string) (string, bool) {
	for _, n := range names {
		if z.Has(n) {
			return n, true
		}
	}
	return "", false
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
	cols := l.Shape[1]
	if i := firstNonFinite(x); i >= 0 {
		return blas32.General{}, fmt.Errorf("%s: row %d, column %d is %v; every value must be a finite float32", l.Name(), i/cols, i%cols, x[i])
	}
	return blas32.General{Rows: l.Shape[0], Cols: cols, Stride: cols, Data: x}, nil
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
