package trees

import (
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestQuantilesGraph checks both ways to find quantiles in a graph, with levels that cumulative
// weights reach exactly. Operator set 9 lacks CumSum. Version 5 of the operators for trees has
// no leaves with many weights.
func TestQuantilesGraph(t *testing.T) {
	levels := []float64{1e-12, 0.05, 0.1, 0.15, 0.25, 0.3, 1. / 3, 0.5, 0.5, 0.55, 0.65, 2. / 3, 0.75, 0.9, 0.95, 1 - 1e-12}
	runtime := orttest.Open(t)
	for _, c := range []struct {
		n             int
		o             ForestOptions
		opset, forest int64
	}{
		{1, ForestOptions{Trees: 3}, 9, 1},
		{2, ForestOptions{Trees: 4}, 17, 1},
		{3, ForestOptions{Trees: 1, Options: Options{MinSplit: 9}}, 17, 1}, // a third is no float32
		{700, ForestOptions{Trees: 20}, 17, 3},
		{700, ForestOptions{Trees: 20, Options: Options{MaxDepth: 5}}, 9, 1},
		{700, ForestOptions{Trees: 20, Options: Options{MinSplit: 8}}, 17, 1},
		{700, ForestOptions{Trees: 100, Options: Options{MinSplit: 8}}, 17, 1},
		{3000, ForestOptions{Trees: 10, Options: Options{MaxDepth: 4}}, 17, 1},
		{700, ForestOptions{Trees: 20, Options: Options{MinSplit: 30}}, 17, 5},
		{maxDistribution + 1, ForestOptions{Trees: 5, Options: Options{MinSplit: 30}}, 17, 1},
	} {
		t.Run(fmt.Sprintf("%d rows, %+v, opset %d, trees %d", c.n, c.o, c.opset, c.forest), func(t *testing.T) {
			x, y := noisyData(c.n, 3, 1)
			if c.n > maxDistribution {
				for i := range y {
					y[i] = float32(i) // distinct
				}
			}
			f := growForest(t, x, y, Automatic, c.o)
			test, _ := noisyData(300, 3, 2)
			want := make([]float32, test.Rows*len(levels))
			f.Quantiles(want, test, levels)

			b := onnx.NewBuilder("test", c.opset)
			b.Import("ai.onnx.ml", c.forest)
			in := graph.Wrap(b, b.Input("x", pb.TensorProto_FLOAT, "n", test.Stride), pb.TensorProto_FLOAT, test.Stride)
			out, err := f.QuantilesGraph(in, levels)
			if err != nil {
				t.Fatal(err)
			}
			b.OutputAs("out", out.Single().Name(), pb.TensorProto_FLOAT, "n", len(levels))
			for i, got := range runGraph(t, runtime, b, test.Data, test.Stride) {
				if got != want[i] {
					t.Fatalf("row %d at %v: %v, want %v", i/len(levels), levels[i%len(levels)], got, want[i])
				}
			}
		})
	}
}

// runGraph returns the numbers of the output of a graph with one input, n×columns.
func runGraph(t *testing.T, runtime *ort.Runtime, b *onnx.Builder, in []float32, columns int) []float32 {
	t.Helper()
	model, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	session, err := runtime.NewSession(t.Context(), ort.Model{Proto: model}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	input, err := ort.NewTensor([]int64{int64(len(in) / columns), int64(columns)}, in)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	out, err := session.Run(t.Context(), []*ort.Tensor{input})
	if err != nil {
		t.Fatal(err)
	}
	defer out[0].Close()
	return append([]float32(nil), ort.View[float32](out[0])...)
}
