package inputs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/ood"
)

// OpenFeatures reads precomputed rows from an .npz archive: features (or
// feat_list) n×h, logits (or logit_list) n×c, labels (or label_list) n, and
// earlier layers layer_0, layer_1 and so on, each n×h_l; any of
// them may be absent, but not both features and logits. An .npy file holds features n×h alone. NaN
// and infinite values are errors that name the row. Labels are only checked to
// be whole numbers: out-of-domain rows are often labelled -1. float32 rows that
// are not compressed take their own size in memory and little more.
func OpenFeatures(path string) (ood.Batch, error) {
	var b ood.Batch
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		l, err := npy.OpenFile(path)
		if err != nil {
			return b, err
		}
		if b.Features, err = matrixOf(l); err == nil && b.Features.Rows == 0 {
			err = fmt.Errorf("%s: %w", path, ErrEmpty)
		}
		return b, err
	}
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return b, err
	}
	n := -1
	agree := func(name string, rows int) error {
		if rows == 0 {
			return fmt.Errorf("%s: %s: %w", path, name, ErrEmpty)
		}
		if n >= 0 && rows != n {
			return fmt.Errorf("%s: %s has %d rows, the arrays beside it have %d", path, name, rows, n)
		}
		n = rows
		return nil
	}
	for _, m := range []struct {
		dst   *blas32.General
		names [2]string
	}{
		{&b.Features, [2]string{"features", "feat_list"}},
		{&b.Logits, [2]string{"logits", "logit_list"}},
	} {
		name, ok := either(z, m.names)
		if !ok {
			continue
		}
		if *m.dst, err = readMatrix(z, name); err != nil {
			return ood.Batch{}, err
		}
		if err := agree(name, m.dst.Rows); err != nil {
			return ood.Batch{}, err
		}
	}
	if name, ok := either(z, [2]string{"labels", "label_list"}); ok {
		if b.Labels, err = readInts(z, name); err != nil {
			return ood.Batch{}, err
		}
		if err := agree(name, len(b.Labels)); err != nil {
			return ood.Batch{}, err
		}
	}
	for name := layerArray(0); z.Has(name); name = layerArray(len(b.Layers)) {
		m, err := readMatrix(z, name)
		if err != nil {
			return ood.Batch{}, err
		}
		if err := agree(name, m.Rows); err != nil {
			return ood.Batch{}, err
		}
		b.Layers = append(b.Layers, m)
	}
	for _, name := range z.Names() {
		var i int
		if n, err := fmt.Sscanf(name, layerPattern, &i); n == 1 && err == nil && i >= len(b.Layers) && name == layerArray(i) {
			return ood.Batch{}, fmt.Errorf("%s: it holds %s but not %s", path, name, layerArray(len(b.Layers)))
		}
	}
	if b.Features.Rows == 0 && b.Logits.Rows == 0 {
		return ood.Batch{}, fmt.Errorf("%s: it holds neither features (or feat_list) nor logits (or logit_list)", path)
	}
	return b, nil
}

// layerPattern is what an archive calls earlier layers, from 0.
const layerPattern = "layer_%d"

func layerArray(i int) string { return fmt.Sprintf(layerPattern, i) }

// FeatureArrays are the arrays of an archive that OpenFeatures reads a batch
// from, labels included where it has any.
func FeatureArrays(b ood.Batch) map[string]heads.Array {
	arrays := map[string]heads.Array{"features": heads.ArrayOf(b.Features), "logits": heads.ArrayOf(b.Logits)}
	for i, m := range b.Layers {
		arrays[layerArray(i)] = heads.ArrayOf(m)
	}
	if b.Labels != nil {
		labels := make([]int64, len(b.Labels))
		for i, l := range b.Labels {
			labels[i] = int64(l)
		}
		arrays["labels"] = heads.Array{Shape: []int{len(labels)}, Data: labels}
	}
	return arrays
}

// LoadWeights reads a network's last layer from an .npz archive: weight c×h
// and bias c. Without a bias it is zero.
func LoadWeights(path string) (*ood.Linear, error) {
	z, err := npy.OpenNPZ(path)
	if errors.Is(err, npy.ErrFormat) {
		return nil, fmt.Errorf("%w; the last layer is read from an .npz file of its weight c×h and bias c", err)
	}
	if err != nil {
		return nil, err
	}
	w, err := readMatrix(z, "weight")
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
	a, err := l.Read()
	if err != nil {
		return nil, err
	}
	if lin.Bias, err = npy.Float32s(a); err != nil {
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

// readMatrix reads an n×d array of finite numbers.
func readMatrix(z *npy.NPZ, name string) (blas32.General, error) {
	l, err := z.Entry(name)
	if err != nil {
		return blas32.General{}, err
	}
	return matrixOf(l)
}

func matrixOf(l *npy.Lazy) (blas32.General, error) {
	if len(l.Shape) != 2 || l.Shape[1] == 0 {
		return blas32.General{}, fmt.Errorf("%s: its shape is %v; want two axes, rows and columns", l.Name(), l.Shape)
	}
	a, err := l.Read()
	if err != nil {
		return blas32.General{}, err
	}
	x, err := npy.Float32s(a)
	if err != nil {
		return blas32.General{}, err
	}
	cols := l.Shape[1]
	if i := firstNonFinite(x); i >= 0 {
		return blas32.General{}, fmt.Errorf("%s: row %d, column %d is %v; every value must be a finite float32", l.Name(), i/cols, i%cols, x[i])
	}
	return blas32.General{Rows: l.Shape[0], Cols: cols, Stride: cols, Data: x}, nil
}

func readInts(z *npy.NPZ, name string) ([]int, error) {
	l, err := z.Entry(name)
	if err != nil {
		return nil, err
	}
	if len(l.Shape) != 1 && !(len(l.Shape) == 2 && l.Shape[1] == 1) {
		return nil, fmt.Errorf("%s: its shape is %v; want one number a row", l.Name(), l.Shape)
	}
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
