package inputs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Targets holds the true targets or labels, by row.
type Targets struct {
	// Values contains n rows of t targets. Each target is finite, or NaN if it is unknown.
	Values blas32.General
	// Labels contains the targets as class indices. It is nil unless the targets are
	// integers in one column, some of which are known. An unknown target is Unlabelled.
	Labels []int
	// Name is the file of the targets and, if it has several arrays, the name of the array.
	Name string
}

// Unlabelled is the label of a row whose class is unknown. It cannot occur in a file.
const Unlabelled = math.MinInt

// OpenTargets reads targets or labels from a separate file. An .npy or .npz file has an
// array (y, targets, labels, or its only array) of shape n or n×t. A Parquet file with
// features or logits is read in the same way. In any other table, every column is a target,
// and a column can contain names of classes. The file must have the given number of rows
// and at most outputs targets in a row, unless outputs is 0. The shape of an array is
// checked before it is read.
func OpenTargets(ctx context.Context, path string, rows, outputs int, classes []string) (Targets, error) {
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case ext == ".npy", ext == ".npz", ext == ".parquet" && HoldsAny(path, slices.Concat(storedNames("features"), storedNames("logits"))...):
		z, err := openArrays(path)
		if err != nil {
			return Targets{}, err
		}
		key := "labels"
		switch names := z.Names(); {
		case z.Has("y"):
			key = "y"
		case z.Has("targets"):
			key = "targets"
		case !z.Has(key) && len(names) == 1:
			key = names[0]
		}
		return arrayTargets(z, key, rows, outputs)
	case IsTable(path):
		t, err := readTable(ctx, path, Options{Takes: []Takes{}, Classes: classes, allTargets: true})
		if err != nil {
			return Targets{}, err
		}
		if err := checkTargets(path, t.n, t.targetsPerRow, rows, outputs); err != nil {
			return Targets{}, err
		}
		return t.collectedTargets()
	}
	return Targets{}, fmt.Errorf("%s: targets are an .npy or .npz file or a table (.csv, .tsv, .txt, .jsonl, .parquet)", path)
}

func arrayTargets(from arrayFile, key string, inputs, outputs int) (Targets, error) {
	a, err := from.entry(key)
	if err != nil {
		return Targets{}, err
	}
	shape := a.shape()
	if len(shape) != 1 && len(shape) != 2 {
		return Targets{}, fmt.Errorf("%s: targets of shape %v are neither n nor n×t", a.Name(), shape)
	}
	n, cols := shape[0], rows.Elements(shape[1:])
	if n*cols == 0 {
		return Targets{}, fmt.Errorf("%s: %w", a.Name(), ErrEmpty)
	}
	if err := checkTargets(a.Name(), n, cols, inputs, outputs); err != nil {
		return Targets{}, err
	}
	x, err := floats(a, 0, n)
	if err != nil {
		return Targets{}, err
	}
	return newTargets(blas32.General{Rows: n, Cols: cols, Stride: cols, Data: x}, a.Name())
}

// checkTargets returns an error if there is not one row of targets for each input, or if
// the model has fewer outputs than targets.
func checkTargets(name string, n, cols, inputs, outputs int) error {
	switch {
	case n != inputs:
		return fmt.Errorf("%s: inputs and targets differ in length: %s for %s", name, rows.Count(n, "target"), rows.Count(inputs, "input"))
	case outputs > 0 && cols > outputs:
		return fmt.Errorf("%s: it has %s per row, but the model predicts %d", name, rows.Count(cols, "target"), outputs)
	}
	return nil
}

func newTargets(m blas32.General, name string) (Targets, error) {
	t := Targets{Values: m, Name: name}
	for i, v := range m.Data {
		if math.IsInf(float64(v), 0) {
			return Targets{}, fmt.Errorf("%s: row %d: the target is %v; a target must be a finite number, or NaN if it is unknown", name, i/m.Stride, v)
		}
	}
	if m.Cols != 1 {
		return t, nil
	}
	labels, known := make([]int, m.Rows), false
	for i := range labels {
		v := m.Data[i*m.Stride]
		if math.IsNaN(float64(v)) {
			labels[i] = Unlabelled
			continue
		}
		// Above 2²⁴ float32 does not represent all integers.
		if v != float32(math.Trunc(float64(v))) || v > rows.MaxExact || v < -rows.MaxExact {
			return t, nil
		}
		labels[i], known = int(v), true
	}
	if known {
		t.Labels = labels
	}
	return t, nil
}

// Known returns the numbers of the rows in which all targets are known.
func (t Targets) Known() (list []int) {
	for i := range t.Values.Rows {
		row := rows.Row(t.Values, i)
		unknown := slices.ContainsFunc(row, func(v float32) bool { return math.IsNaN(float64(v)) })
		if !unknown {
			list = append(list, i)
		}
	}
	return list
}

// ErrNoTarget reports that all targets are unknown.
var ErrNoTarget = errors.New("every target is empty or NaN")

// Known returns the rows whose targets are known, or all rows if there are no targets. If
// no target is known, the error is ErrNoTarget.
func (s *Set) Known() (*Set, error) {
	list := Targets{Values: s.Targets}.Known()
	switch {
	case len(list) == s.Targets.Rows:
		return s, nil
	case len(list) == 0:
		return nil, ErrNoTarget
	}
	return s.Subset(list), nil
}

// ClassNameError reports that a target is a text but the class names are unknown.
type ClassNameError struct{ message string }

func (e *ClassNameError) Error() string { return e.message }

// readTargets reads the arrays y and labels of an archive. If both exist, labels contains
// the labels and y the targets.
func (s *Set) readTargets(z arrayFile, o Options) error {
	if o.NoTargets {
		return nil
	}
	for _, key := range []string{"labels", "y"} {
		if !z.Has(key) || inputNamed(o.Takes, key) != nil {
			continue
		}
		t, err := arrayTargets(z, key, s.Len(), o.Outputs)
		if err == nil && key == "labels" && t.Labels == nil {
			err = fmt.Errorf("%s: labels must be whole numbers, one for each row", t.Name)
		}
		switch {
		case err == nil && s.Labels != nil:
			s.Targets = t.Values
		case err == nil:
			s.Targets, s.Labels = t.Values, t.Labels
		case !o.SkipOdd:
			return err
		}
	}
	return nil
}

// Slice returns the targets of the rows in a range.
func (t Targets) Slice(selected Slice) (Targets, error) {
	first, last, err := selected.Of(t.Values.Rows)
	t.Values.Data, t.Values.Rows = t.Values.Data[first*t.Values.Stride:], last-first
	if t.Labels != nil {
		t.Labels = t.Labels[first:last]
	}
	return t, err
}

// SetTargets replaces the targets of the set. There must be one row of targets for each input.
func (s *Set) SetTargets(t Targets) error {
	if err := checkTargets(t.Name, t.Values.Rows, t.Values.Cols, s.Len(), 0); err != nil {
		return err
	}
	s.Targets, s.Labels = t.Values, t.Labels
	return nil
}

// ClassesOf returns the number of classes of a model with the given number of outputs. A
// single output is the logit of the second of two classes.
func ClassesOf(outputs int) int {
	if outputs == 1 {
		return 2
	}
	return outputs
}

// LabelError reports a label that is not a class of the model.
type LabelError struct{ row, label, classes int }

func (e *LabelError) Error() string {
	return fmt.Sprintf("row %d: label %d is out of range; the model has %d classes, numbered from 0", e.row, e.label, e.classes)
}

// CheckLabels returns a LabelError for the first label that is not a class of a model with the
// given number of outputs. A label may be Unlabelled.
func CheckLabels(labels []int, outputs int) error {
	classes := ClassesOf(outputs)
	for i, c := range labels {
		if c != Unlabelled && (c < 0 || c >= classes) {
			return &LabelError{i, c, classes}
		}
	}
	return nil
}
