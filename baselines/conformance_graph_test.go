package baselines_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// opsets are the ONNX operator sets to test. Operators differ between them.
var opsets = []int64{17, 9, 10, 13, 18}

// graph checks that the graph of a method computes its scores. It tests the first
// configuration in every operator set, and the other configurations only in the first set.
// If a method has no graph, it must give a reason.
func (c conformance) graph(t *testing.T) {
	r := orttest.Open(t)
	written := 0
	var why *graph.Refusal
	for k, s := range c.scorers {
		for _, opset := range opsets {
			if k > 0 && opset != opsets[0] {
				continue
			}
			model, err := c.graphModel(s, opset)
			if errors.As(err, &why) {
				if _, none := graph.Score(nil, graph.Batch{}); why == none {
					t.Fatal("the method has neither a graph nor a reason why not")
				}
				break
			}
			written++
			if err != nil {
				t.Fatal(err)
			}
			session, err := r.NewSession(background, ort.Model{Proto: model}, nil, nil)
			if err != nil {
				t.Fatalf("%v, operator set %d: %v", c.configs[k], opset, err)
			}
			defer session.Close()
			if !c.matches(t, s, session) {
				t.Fatalf("%v, operator set %d", c.configs[k], opset)
			}
		}
	}
	switch {
	case written == 0:
		t.Skipf("no graph: %v", why)
	case why != nil:
		t.Logf("some configurations have no graph: %v", why)
	}
}

// graphModel returns an ONNX model that computes the scores of a scorer.
func (c conformance) graphModel(s *fitting.Scorer, opset int64) (*pb.ModelProto, error) {
	b := onnx.NewBuilder("test", opset)
	var in graph.Batch
	for _, name := range s.Widths().Names() {
		width := s.Widths()[name]
		in.Set(name, graph.Wrap(b, b.Input(name, pb.TensorProto_FLOAT, "n", width), pb.TensorProto_FLOAT, width))
	}
	var out graph.Tensor
	var err error
	dims := []any{"n", 1}
	if c.Needs.Targets {
		out, err = graph.Quantiles(s.Fitted(), in.Features, levels)
		dims = []any{"n", -1, len(levels)}
	} else {
		out, err = graph.Score(s.Fitted(), in)
	}
	if err != nil {
		return nil, err
	}
	b.OutputAs("out", out.Double().Name(), pb.TensorProto_DOUBLE, dims...)
	return b.Model()
}

// matches reports whether a graph and its scorer agree. It also checks that rows with NaN
// or infinities score NaN or +Inf, and that no row scores −Inf.
func (c conformance) matches(t *testing.T, s *fitting.Scorer, session *ort.Session) bool {
	t.Helper()
	for _, b := range []ood.Batch{c.out, c.in, c.in.Slice(0, 1)} {
		if !agree(t, c.run(t, session, b), c.predict(t, s, b)) {
			return false
		}
	}
	unusual := batchparts.Map(c.in, func(m blas32.General) blas32.General {
		m = withValue(withValue(withValue(m, 3, math.NaN()), 5, math.Inf(1)), 7, math.Inf(-1))
		for k, v := range []float32{1e-38, 1e20, 3e38, -3e38} {
			for j := range m.Cols {
				m.Data[(9+k)*m.Stride+j] = v
			}
		}
		return m
	})
	got, want := c.run(t, session, unusual), c.predict(t, s, c.in)
	var beside, alone []float64
	for i := range c.in.Len() {
		at := c.at(got, i)
		switch {
		case i == 3 || i == 5 || i == 7:
			if slices.ContainsFunc(at, func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 1) }) {
				t.Errorf("a row that is not finite has %v", at)
			}
		case i >= 9 && i < 13:
			if !c.Needs.Targets && math.IsInf(at[0], -1) {
				t.Errorf("a row of huge numbers scores %v", at)
			}
		default:
			beside, alone = append(beside, at...), append(alone, c.at(want, i)...)
		}
	}
	return agree(t, beside, alone) && !t.Failed()
}

// agree reports whether the relative difference of each number is at most 1e-5. For small
// numbers, the difference is relative to the median of the absolute values in want.
func agree(t *testing.T, got, want []float64) bool {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d numbers, not %d", len(got), len(want))
		return false
	}
	magnitudes := make([]float64, len(want))
	for i, v := range want {
		magnitudes[i] = math.Abs(v)
	}
	slices.Sort(magnitudes)
	for i, v := range want {
		if !(math.Abs(got[i]-v) <= 1e-5*max(math.Abs(v), magnitudes[len(magnitudes)/2])) {
			t.Errorf("number %d is %v in the graph, not %v", i, got[i], v)
			return false
		}
	}
	return true
}

func (c conformance) run(t *testing.T, session *ort.Session, b ood.Batch) []float64 {
	t.Helper()
	indices := make([]int, b.Len())
	for i := range indices {
		indices[i] = i
	}
	var in []*ort.Tensor
	if !c.Needs.Features {
		b.Features = blas32.General{}
	}
	if !c.Needs.Logits {
		b.Logits = blas32.General{}
	}
	if !c.Needs.Layers {
		b.Layers = nil
	}
	for _, p := range batchparts.Of(&b) {
		x, err := ort.NewTensor([]int64{int64(p.Rows), int64(p.Cols)}, rows.Select(*p.General, indices).Data)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		in = append(in, x)
	}
	out, err := session.Run(background, in)
	if err != nil {
		t.Fatal(err)
	}
	defer out[0].Close()
	return slices.Clone(ort.View[float64](out[0]))
}
