package featurize

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func wrap(shape []int, data []float32) (*ort.Tensor, error) {
	return ort.NewTensor(dims(shape), data)
}

func dims(shape []int) []int64 {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	return dims
}

// wrap is what a session of the edited graph takes: tensors in the order of the
// inputs, or their defaults.
func (list inputs) wrap(tensors []ood.Tensor) ([]*ort.Tensor, error) {
	var all []*ort.Tensor
	for i, t := range tensors {
		if t.Shape == nil {
			t = list[i].fallback
		}
		var x *ort.Tensor
		var err error
		if list[i].texts() {
			x, err = ort.NewStrings(dims(t.Shape), t.Strings)
		} else {
			x, err = wrap(t.Shape, t.Data)
		}
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("input %q: %w", list[i].name, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// asRows sees a tensor of the edited graph as n rows.
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
