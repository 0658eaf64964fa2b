package train

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

func TestApply(t *testing.T) {
	n := Network{Layers: []Layer{
		{W: blas32.General{Rows: 1, Cols: 2, Stride: 2, Data: []float32{1, -1}}},
		{W: blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{1, 1}}, B: []float32{0.5}},
	}}
	x := blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{-3, 2}}
	if got := n.Apply(x).Data; !slices.Equal(got, []float32{3.5, 2.5}) { // |x| + 0.5
		t.Errorf("got %v", got)
	}
}
