package ood_test

import (
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func TestInputScale(t *testing.T) {
	for _, c := range []struct {
		scale ood.InputScale
		shape []int
		want  []float32
	}{
		{ood.InputScale{}, []int{3}, []float32{1, 1, 1}},
		{ood.InputScale{Factor: []float32{4}, Axis: 7}, []int{1, 2}, []float32{4, 4}},
		{ood.InputScale{Factor: []float32{2, 3}}, []int{2, 1, 2}, []float32{2, 2, 3, 3}},
		{ood.InputScale{Factor: []float32{2, 3}, Axis: 2}, []int{1, 2, 2}, []float32{2, 3, 2, 3}},
		{ood.InputScale{Factor: []float32{2, 3}, Axis: 1}, []int{2, 2, 1}, []float32{2, 3, 2, 3}},
		{ood.InputScale{Factor: []float32{2, 3}}, []int{3, 2}, nil},
		{ood.InputScale{Factor: []float32{2, 3}, Axis: 2}, []int{2, 2}, nil},
	} {
		got, err := c.scale.Row(c.shape)
		if !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%+v on %v: %v, %v", c.scale, c.shape, got, err)
		}
	}
	for _, f := range []float32{0, -1} {
		if err := (ood.InputScale{Factor: []float32{1, f}}).Check(); err == nil {
			t.Errorf("a factor of %v passes", f)
		}
	}
}
