package graph_test

import (
	"math"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestTrees checks trees whose sums are known, in both operators that compute them.
func TestTrees(t *testing.T) {
	leaves := func(column int, values ...float32) (all [][]graph.LeafWeight) {
		for _, v := range values {
			all = append(all, []graph.LeafWeight{{Column: column, Value: v}})
		}
		return all
	}
	all := []graph.Tree{
		// x₁ ≤ 0.5 ? 1 : (x₀ ≤ 3 ? 2 : 4)
		{Feature: []int32{1, -1, 0, -1, -1}, Threshold: []float32{.5, 0, 3, 0, 0}, Left: []int32{1, 0, 3, 1, 2}, Leaves: leaves(1, 1, 2, 4)},
		{Feature: []int32{-1}, Threshold: []float32{0}, Left: []int32{0}, Leaves: leaves(0, 7)},
		// x₀ ≤ −1 ? 10 : 20
		{Feature: []int32{0, -1, -1}, Threshold: []float32{-1, 0, 0}, Left: []int32{1, 0, 1}, Leaves: leaves(1, 10, 20)},
	}
	in, want := []float32{-1, .5, 0, 1, 4, 1, float32(math.Inf(-1)), 9}, []float32{7, 11, 7, 22, 7, 24, 7, 12}
	for _, version := range []int64{1, 3, 5} {
		b := onnx.NewBuilder("test", 17)
		b.Import("ai.onnx.ml", version)
		x := graph.Wrap(b, b.Input("x", pb.TensorProto_FLOAT, "n", 2), pb.TensorProto_FLOAT, 2)
		b.OutputAs("out", x.Trees(all, 2).Name(), pb.TensorProto_FLOAT, "n", 2)
		if got := runGraph(t, b, 2, in); !slices.Equal(got, want) {
			t.Errorf("version %d: %v, not %v", version, got, want)
		}
	}
}

// TestArgMaxOf checks the search by blocks against ArgMax, with ties.
func TestArgMaxOf(t *testing.T) {
	b := onnx.NewBuilder("test", 12)
	x := graph.Wrap(b, b.Input("x", pb.TensorProto_FLOAT, "n", 12), pb.TensorProto_FLOAT, 12)
	b.OutputAs("out", x.ArgMaxOf(3).Sub(x.ArgMax()).Single().Name(), pb.TensorProto_FLOAT, "n", 1)
	b.OutputAs("at", x.ArgMaxOf(3).Single().Name(), pb.TensorProto_FLOAT, "n", 1)
	var in, want []float32
	for row := range 12 {
		numbers := make([]float32, 12)
		numbers[row], numbers[11] = 2, 2
		in, want = append(in, numbers...), append(want, float32(row))
	}
	if got := runGraph(t, b, 12, in); !slices.Equal(got, append(make([]float32, 12), want...)) {
		t.Errorf("differences from ArgMax, then indices: %v", got)
	}
}

// TestConditions checks Is, And and All in operator sets that differ in Equal.
func TestConditions(t *testing.T) {
	for _, opset := range []int64{9, 17} {
		b := onnx.NewBuilder("test", opset)
		x := graph.Wrap(b, b.Input("x", pb.TensorProto_FLOAT, "n", 2), pb.TensorProto_FLOAT, 2)
		b.OutputAs("out", x.Is(.9).Choose(x.Mul(0.).Add(1.), 0.).Name(), pb.TensorProto_FLOAT, "n", 2)
		b.OutputAs("all", x.Less(2.).And(x.Less(1.)).All().Single().Name(), pb.TensorProto_FLOAT, "n", 1)
		got := runGraph(t, b, 2, []float32{.9, .90000004, float32(math.NaN()), .5, -.9, 1.5})
		if want := []float32{1, 0, 0, 0, 0, 0, 1, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("operator set %d: %v, not %v", opset, got, want)
		}
	}
}

// TestIf checks that a subgraph reads a tensor and a constant of the graph, and that only the
// chosen one runs: the other has a wrong index.
func TestIf(t *testing.T) {
	b := onnx.NewBuilder("test", 17)
	x := graph.Wrap(b, b.Input("x", pb.TensorProto_FLOAT, "n", 1), pb.TensorProto_FLOAT, 1)
	doubled := x.Mul(2.)
	one := x.Constant([]float32{1})
	out := b.If(one.Is(1).Name(), 2, func() []string {
		return []string{doubled.Add(one).Name(), x.Constant([]float32{5}, 1, 1).Name()}
	}, func() []string {
		return []string{x.Constant([]int64{9}).Lookup(one).Name(), x.Constant([]float32{6}, 1, 1).Name()}
	})
	b.OutputAs("a", out[0], pb.TensorProto_FLOAT, "n", 1)
	b.OutputAs("b", out[1], pb.TensorProto_FLOAT, 1, 1)
	if got, want := runGraph(t, b, 1, []float32{3, 4}), []float32{7, 9, 5}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// runGraph runs a graph with one input of the given number of columns. It returns the numbers
// of all outputs.
func runGraph(t *testing.T, b *onnx.Builder, columns int, in []float32) (all []float32) {
	t.Helper()
	model, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	session, err := orttest.Open(t).NewSession(t.Context(), ort.Model{Proto: model}, nil, nil)
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
	for _, o := range out {
		all = append(all, slices.Clone(ort.View[float32](o))...)
		o.Close()
	}
	return all
}
