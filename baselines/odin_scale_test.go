package baselines

import (
	"slices"
	"testing"
)

func TestInputScale(t *testing.T) {
	for _, c := range []struct {
		s     odin
		shape []int
		want  []float32
	}{
		{odin{Scale: []float32{4}, Axis: 7}, []int{1, 2}, []float32{4}},
		{odin{Scale: []float32{2, 3}}, []int{2, 1, 2}, []float32{2, 2, 3, 3}},
		{odin{Scale: []float32{2, 3}, Axis: 2}, []int{1, 2, 2}, []float32{2, 3, 2, 3}},
		{odin{Scale: []float32{2, 3}, Axis: 1}, []int{2, 2, 1}, []float32{2, 3, 2, 3}},
		{odin{Scale: []float32{2, 3}}, []int{3, 2}, nil},
		{odin{Scale: []float32{2, 3}, Axis: 2}, []int{2, 2}, nil},
	} {
		got, err := c.s.steps(c.shape)
		if !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%+v on %v: %v, %v", c.s, c.shape, got, err)
		}
	}
	for _, f := range []float32{0, -1} {
		if err := (&odin{Scale: []float32{1, f}}).check(); err == nil {
			t.Errorf("a factor of %v passes", f)
		}
	}
}
