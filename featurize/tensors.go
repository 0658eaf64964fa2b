package featurize

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/ort"
)

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func wrap(shape []int, data []float32) (*ort.Tensor, error) {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	return ort.NewTensor(dims, data)
}

// asRows sees a tensor of the edited graph as n rows.
func asRows(t *ort.Tensor, n int) (blas32.General, error) {
	data := t.Float32s()
	if t.DType() != ort.Float32 {
		data = t.AppendFloat32s(nil)
	}
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
