package inputs

import (
	"slices"
	"testing"
)

func TestScale(t *testing.T) {
	for _, c := range []struct {
		p    *Preprocess
		want []float32
	}{
		{nil, nil},
		{&Preprocess{}, []float32{255}},
		{&Preprocess{Rescale: 1. / 255}, []float32{1}},
		{&Preprocess{Rescale: 1. / 255, Mean: []float64{.5}, Std: []float64{.5}}, []float32{2}},
		{&Preprocess{Mean: []float64{1, 2, 3}, Std: []float64{1, 2, 4}}, []float32{255, 127.5, 63.75}},
	} {
		for _, layout := range []Layout{"", NCHW, NHWC} {
			s := c.p.Scale(layout)
			if !slices.Equal(s.Factor, c.want) || s.Axis != map[bool]int{true: 2}[layout == NHWC && c.p != nil] {
				t.Errorf("%+v: %+v", c.p, s)
			}
		}
		if c.p == nil {
			continue
		}
		// What the pipeline does to two levels says the same.
		pipe, err := newPipeline(c.p, NCHW)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range c.want {
			if step := pipe.table[i][255] - pipe.table[i][0]; !(step-f < 1e-4*f && f-step < 1e-4*f) {
				t.Errorf("%+v: channel %d moves by %v over all levels, want %v", c.p, i, step, f)
			}
		}
	}
}
