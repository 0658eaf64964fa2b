package featurize

import (
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// match returns the tensors of a block in the order of the inputs, after checking that they
// fit. first is the number of the first row. A tensor without a shape means the input's
// default.
func (list inputs) match(b ood.InputBlock, first int) ([]ood.Tensor, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	matched := make([]ood.Tensor, len(list))
	found := 0
	for i, in := range list {
		t := list.tensorFor(b.Tensors, in)
		if t == nil && in.isOptional() {
			continue
		}
		if t == nil {
			return nil, fmt.Errorf("the rows lack the model's input %q (%s %s)%s", in.name, onnx.DTypeName(in.elemType), formatShape(in.dims), list.tensorNames(b.Tensors))
		}
		found++
		matched[i] = in.reshaped(*t)
		if err := in.check(matched[i]); err != nil {
			return nil, err
		}
		name := "input"
		if len(list) > 1 {
			name += " " + strconv.Quote(in.name)
		}
		if j := in.firstMisfit(t.Data); j >= 0 {
			return nil, in.misfitError(t.Data[j], first+rowOf(matched[i], j), name)
		}
	}
	if found < len(b.Tensors) {
		return nil, list.unmatchedError(b.Tensors)
	}
	return matched, list.checkLengths(matched, first)
}

// checkLengths returns an error if a row has two different lengths along axes with the same
// name.
func (list inputs) checkLengths(tensors []ood.Tensor, first int) error {
	firstInput := make(map[string]int) // index of the first input with each axis name
	for i, in := range list {
		t := tensors[i]
		if t.Lengths == nil || in.dims == nil || in.axes[1] == "" {
			continue
		}
		j, known := firstInput[in.axes[1]]
		if !known {
			firstInput[in.axes[1]] = i
			continue
		}
		for row, length := range t.Lengths {
			if other := tensors[j].Lengths[row]; length != other {
				return fmt.Errorf("row %d (counted from 0) has length %d in the input %q and %d in %q, and the model needs equal lengths", first+row, other, list[j].name, length, in.name)
			}
		}
	}
	return nil
}

// tensorFor returns the tensor for an input, or nil. A tensor without a name belongs to the
// only required input. If the name of the input ends in ":0", as in models from TensorFlow,
// the tensor's name may lack this suffix.
func (list inputs) tensorFor(tensors []ood.Tensor, in input) *ood.Tensor {
	for i, t := range tensors {
		if t.Name == in.name || t.Name+":0" == in.name || t.Name == "" && len(tensors) == 1 && !in.isOptional() && list.requiredCount() == 1 {
			return &tensors[i]
		}
	}
	return nil
}

// requiredCount returns the number of inputs without a default.
func (list inputs) requiredCount() int {
	n := 0
	for _, in := range list {
		if !in.isOptional() {
			n++
		}
	}
	return n
}

// tensorNames formats the names of tensors for messages, in parentheses. It returns ""
// if the tensors have no names.
func (list inputs) tensorNames(tensors []ood.Tensor) string {
	var names []string
	for _, t := range tensors {
		if t.Name != "" {
			names = append(names, t.Name)
		}
	}
	if names == nil {
		return ""
	}
	return " (" + display.Quoted(names, 10) + ")"
}

// unmatchedError returns the error for a tensor that belongs to no input, or for an input that
// occurs twice.
func (list inputs) unmatchedError(tensors []ood.Tensor) error {
	names := make([]string, len(list))
	for i, in := range list {
		names[i] = in.name
	}
	for i, t := range tensors {
		if !slices.ContainsFunc(list, func(in input) bool { return list.tensorFor(tensors[i:i+1], in) != nil }) {
			return fmt.Errorf("the rows contain %q, which is not an input of the model; its inputs are %s", t.Name, display.Quoted(names, 10))
		}
	}
	return fmt.Errorf("the rows contain an input twice; the model's inputs are %s", display.Quoted(names, 10))
}

// reshaped adds or removes an axis of size 1, because the shape of a column may be n or
// n×1.
func (in input) reshaped(t ood.Tensor) ood.Tensor {
	switch {
	case t.Lengths != nil || in.dims == nil:
	case len(t.Shape) == 1 && len(in.dims) == 2 && in.dims[1] == 1:
		t.Shape = []int{t.Shape[0], 1}
	case len(t.Shape) == 2 && t.Shape[1] == 1 && len(in.dims) == 1:
		t.Shape = t.Shape[:1]
	}
	return t
}

// rowOf returns the index of the row that contains element i of a tensor.
func rowOf(t ood.Tensor, i int) int {
	if t.Lengths == nil {
		return i / product(t.Shape[1:])
	}
	row := 0
	for width := product(t.Shape[2:]); i >= t.Lengths[row]*width; row++ {
		i -= t.Lengths[row] * width
	}
	return row
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func newTensor(shape []int, data []float32) (*ort.Tensor, error) {
	return ort.NewTensor(toInt64s(shape), data)
}

func toInt64s(shape []int) []int64 {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	return dims
}

// newTensors returns tensors for a session of the edited graph, in the order of the inputs. A
// tensor without a shape is replaced by the input's default.
func (list inputs) newTensors(tensors []ood.Tensor) ([]*ort.Tensor, error) {
	var all []*ort.Tensor
	for i, t := range tensors {
		if t.Shape == nil {
			t = list[i].defaultValue
		}
		var x *ort.Tensor
		var err error
		if list[i].takesText() {
			x, err = ort.NewStrings(toInt64s(t.Shape), t.Strings)
		} else {
			x, err = newTensor(t.Shape, t.Data)
		}
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("input %q: %w", list[i].name, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// asRows returns an output of the edited graph as n rows, without copying it.
func asRows(t *ort.Tensor, n int) (blas32.General, error) {
	data := t.Float32s()
	if n == 0 || len(data) == 0 || len(data)%n != 0 {
		return blas32.General{}, fmt.Errorf("shape %v for %d rows", t.Shape(), n)
	}
	w := len(data) / n
	return blas32.General{Rows: n, Cols: w, Stride: w, Data: data}, nil
}

func closeAll(list []*ort.Tensor) {
	for _, t := range list {
		t.Close()
	}
}
