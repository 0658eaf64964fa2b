package graph_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestCountAbove checks CountAbove against a count that compares x with every number.
func TestCountAbove(t *testing.T) {
	r := orttest.Open(t)
	for _, n := range []int{1, 5, 4095, 4096, 10_000} {
		for _, lists := range [][][]float64{{ascending(n)}, {ascending(n), {3, 3, 7}}} {
			columns := len(lists)
			b := onnx.NewBuilder("test", 17)
			x := graph.Wrap(b, b.Input("x", pb.TensorProto_FLOAT, "n", columns), pb.TensorProto_FLOAT, columns).Double()
			if columns > 1 {
				x = x.Reshape(-1, int64(columns), 1)
			}
			at, width := x.CountAbove(lists...)
			b.OutputAs("out", at.Reshape(-1, int64(columns)).To(pb.TensorProto_INT64).Name(), pb.TensorProto_INT64, "n", columns)
			model, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			session, err := r.NewSession(context.Background(), ort.Model{Proto: model}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			var in []float32
			var want []int64
			for _, v := range []float64{-1, 0, .5, 3, 6.5, 64, float64(n / 2), float64(n) - 1, float64(n), math.Inf(1), math.Inf(-1), math.NaN()} {
				for i, l := range lists {
					above := 0
					for _, number := range l {
						if v < number {
							above++
						}
					}
					in, want = append(in, float32(v)), append(want, int64(i*width+above))
				}
			}
			input, err := ort.NewTensor([]int64{int64(len(in) / columns), int64(columns)}, in)
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			out, err := session.Run(context.Background(), []*ort.Tensor{input})
			if err != nil {
				t.Fatal(err)
			}
			defer out[0].Close()
			if got := ort.View[int64](out[0]); !slices.Equal(got, want) {
				t.Errorf("%d numbers, %d lists: %v, not %v", n, columns, got, want)
			}
		}
	}
}

// ascending returns the numbers 0 to n−1.
func ascending(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = float64(i)
	}
	return all
}
