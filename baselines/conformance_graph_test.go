package baselines_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/batches"
	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/parts"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// opsets are those that graphs of heads are extended in.
var opsets = []int64{17, 9, 10, 11, 12, 13, 18, 21}

// graph holds that what a method writes as a graph is what it computes, in any
// operator set, or that it says why it writes none.
func (c conformance) graph(t *testing.T) {
	r := orttest.Open(t)
	for k, s := range c.scorers {
		for _, opset := range opsets {
			if k > 0 && opset != opsets[0] {
				continue
			}
			run, err := c.written(s, opset)
			var why *graph.Refusal
			if errors.As(err, &why) {
				t.Skipf("no graph: %v", why)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []ood.Batch{c.training.Batch, c.in, c.out, c.in.Slice(0, 1)} {
				want, got := c.predict(t, s, b), run(t, r, b)
				c.agree(t, fmt.Sprintf("%v, operator set %d", c.configs[k], opset), got, want)
			}
			spoilt := batches.Map(c.in, func(m blas32.General) blas32.General {
				return spoilt(spoilt(spoilt(m, 3, math.NaN()), 5, math.Inf(1)), 7, math.Inf(-1))
			})
			got := run(t, r, spoilt)
			want := c.predict(t, s, c.in)
			for i := range c.in.Len() {
				switch at := c.at(got, i); {
				case i != 3 && i != 5 && i != 7:
					c.agree(t, "beside rows that are not finite", at, c.at(want, i))
				case slices.ContainsFunc(at, func(v float64) bool { return !math.IsNaN(v) }):
					t.Errorf("%v: a row that is not finite has %v", c.configs[k], at)
				}
			}
			for _, v := range []float32{1e-38, 1e20, 3e38, -3e38} {
				huge := batches.Map(c.in.Slice(0, 3), func(m blas32.General) blas32.General {
					m = strided(m)
					for i := range m.Data {
						m.Data[i] = v
					}
					return m
				})
				if got := run(t, r, huge); !c.Intervals() && slices.Contains(got, math.Inf(-1)) {
					t.Errorf("%v: rows of %v score %v", c.configs[k], v, got)
				}
			}
		}
	}
}

// agree holds that numbers are equal to 1e-5 of what they are, or of half of them.
func (c conformance) agree(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, not %d", what, len(got), len(want))
	}
	sizes := make([]float64, len(want))
	for i, v := range want {
		sizes[i] = math.Abs(v)
	}
	slices.Sort(sizes)
	for i, v := range want {
		if !(math.Abs(got[i]-v) <= 1e-5*max(math.Abs(v), sizes[len(sizes)/2])) {
			t.Fatalf("%s: number %d is %v in the graph, not %v", what, i, got[i], v)
		}
	}
}

// written is a graph of what a scorer computes, to be run.
func (c conformance) written(s *ood.Scorer, opset int64) (run func(*testing.T, *ort.Runtime, ood.Batch) []float64, err error) {
	b := onnx.NewBuilder("test", opset)
	var in graph.Batch
	for _, name := range s.Widths().Names() {
		width := s.Widths()[name]
		parts.Set(&in.Features, &in.Logits, &in.Layers, name, graph.Of(b, b.Input(name, pb.TensorProto_FLOAT, "n", width), pb.TensorProto_FLOAT, width))
	}
	var out graph.Tensor
	dims := []any{"n", 1}
	if c.Intervals() {
		out, err = graph.Quantiles(s.Fitted(), in.Features, levels)
		dims = []any{"n", -1, len(levels)}
	} else {
		out, err = graph.Score(s.Fitted(), in)
	}
	if err != nil {
		return nil, err
	}
	b.OutputAs("out", out.Double().Name(), pb.TensorProto_DOUBLE, dims...)
	model, err := b.Model()
	if err != nil {
		return nil, err
	}
	return func(t *testing.T, r *ort.Runtime, batch ood.Batch) []float64 {
		t.Helper()
		session, err := r.NewSession(background, ort.Model{Proto: model}, nil, nil)
		if err != nil {
			t.Fatalf("operator set %d: %v", opset, err)
		}
		defer session.Close()
		var tensors []*ort.Tensor
		for _, p := range batch.Parts(c.Needs) {
			x, err := ort.NewTensor([]int64{int64(p.Rows), int64(p.Cols)}, rows.Select(*p.General, all(p.Rows)).Data)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			tensors = append(tensors, x)
		}
		got, err := session.Run(background, tensors)
		if err != nil {
			t.Fatalf("operator set %d: %v", opset, err)
		}
		defer got[0].Close()
		return slices.Clone(ort.View[float64](got[0]))
	}, nil
}

func all(n int) []int {
	picked := make([]int, n)
	for i := range picked {
		picked[i] = i
	}
	return picked
}
