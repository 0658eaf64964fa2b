package featurize

import (
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// TestGrid checks how rows of each shape are divided into elements.
func TestGrid(t *testing.T) {
	for name, c := range map[string]struct {
		dims    []int // of the model's input
		patch   int
		shape   []int
		members [][]int
	}{
		"columns":        {[]int{-1, 3}, 0, []int{3}, [][]int{{0}, {1}, {2}}},
		"one column":     {[]int{-1}, 0, []int{1}, [][]int{{0}}},
		"series":         {[]int{-1, 2, 3}, 0, []int{2}, [][]int{{0, 1, 2}, {3, 4, 5}}},
		"nchw":           {[]int{-1, 1, 2, 3}, 2, []int{1, 2}, [][]int{{0, 1, 3, 4}, {2, 5}}},
		"nchw of colour": {[]int{-1, 3, 1, 2}, 1, []int{1, 2}, [][]int{{0, 2, 4}, {1, 3, 5}}},
		"nhwc":           {[]int{-1, 2, 2, 3}, 0, []int{2, 2}, [][]int{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}},
	} {
		a := &Attached{Model: &Model{inputs: inputs{{name: "x", dims: c.dims, elemType: int32(pb.TensorProto_FLOAT)}}}}
		shape := append([]int{1}, c.dims[1:]...)
		g, err := a.newGrid(ood.Tensor{Shape: shape, Data: make([]float32, product(shape))}, c.patch)
		if err != nil || !reflect.DeepEqual(g.shape, c.shape) || !reflect.DeepEqual(g.members, c.members) {
			t.Errorf("%s: %v of %v, error %v; want %v of %v", name, g.shape, g.members, err, c.shape, c.members)
		}
	}
}
