package autodiff

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// upgraded returns a builder for the graph of b, converted with onnx.Upgrade.
func upgraded(t *testing.T, b *onnx.Builder) *onnx.Builder {
	t.Helper()
	g, err := onnx.Upgrade(b.Index(), "")
	if err != nil {
		t.Fatal(err)
	}
	return onnx.Extend(g.Model)
}

// declareOutputs declares the tensors as outputs of the graph, without a type.
func declareOutputs(b *onnx.Builder, tensors []string) {
	for _, o := range tensors {
		b.OutputAs("out", o, pb.TensorProto_DOUBLE)
		b.Graph().Output[len(b.Graph().Output)-1].Type = nil
	}
}

func modelWithOutputs(t *testing.T, b *onnx.Builder, tensors []string) *pb.ModelProto {
	t.Helper()
	declareOutputs(b, tensors)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func runModel(t *testing.T, rt *ort.Runtime, m *pb.ModelProto, in []*ort.Tensor) []*ort.Tensor {
	t.Helper()
	s, err := rt.NewSession(context.Background(), ort.Model{Proto: m}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestUpgrade checks that onnx.Upgrade does not change the results of nodes of old operator
// sets. It also checks the errors for nodes that onnx.Upgrade cannot convert.
func TestUpgrade(t *testing.T) {
	rt := orttest.Open(t)
	for _, r := range references(t) {
		if r.From >= onnx.TargetOpset {
			continue
		}
		b, _, y, in := r.build(r.From, false)
		want := runModel(t, rt, modelWithOutputs(t, b, []string{y}), in)[0].Float32s()
		b, _, y, in = r.build(r.From, false)
		got := runModel(t, rt, modelWithOutputs(t, upgraded(t, b), []string{y}), in)[0].Float32s()
		if !slices.Equal(got, want) {
			t.Errorf("%s of operator set %d gives %v, upgraded %v", r.Name, r.From, want, got)
		}
	}
	b := onnx.NewBuilder("g", 9)
	b.Node("Upsample", []string{b.Input("x", pb.TensorProto_FLOAT, 3)}) // without scales
	upgraded(t, b)
	for _, c := range []struct {
		op, attribute string
		value         any
		inputs        int
		opset         int64
		want          string
	}{
		{"Scan", "num_scan_inputs", 1, 2, 8, "batch axis"},
		{"Affine", "alpha", float32(2), 1, 7, "export the model anew with operator set 13"},
		{"MeanVarianceNormalization", "across_channels", 1, 1, 8, "attributes of an old operator set"},
		{"BatchNormalization", "spatial", 0, 5, 8, "statistics for each element"},
		{"Upsample", "scales", []float32{1, 1, 2, .5}, 1, 8, "drops elements"},
	} {
		b := onnx.NewBuilder("g", c.opset)
		b.Append(onnx.Node{Op: c.op, Name: "it", Inputs: make([]string, c.inputs), Attrs: []*pb.AttributeProto{onnx.Attr(c.attribute, c.value)}})
		if _, err := onnx.Upgrade(b.Index(), ""); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "node/it") {
			t.Errorf("%s: error %v, want one that says %s and names the node", c.op, err, c.want)
		}
	}
}

// TestUpgradeRemoved checks operators that newer operator sets removed, or whose attributes
// they changed. After onnx.Upgrade, they must have unchanged results and a gradient.
func TestUpgradeRemoved(t *testing.T) {
	rt := orttest.Open(t)
	f := onnx.Attr
	for _, c := range []struct {
		op          string
		attrs       []*pb.AttributeProto
		inputs      func(*onnx.Builder) []string
		from, until int64
	}{
		{op: "Scatter", inputs: func(b *onnx.Builder) []string {
			return []string{b.Const(ints(1, 0), 1, 1, 1, 2), b.Const([]float32{7, 8}, 1, 1, 1, 2)}
		}, from: 9, until: 10},
		{op: "Upsample", attrs: []*pb.AttributeProto{f("scales", []float32{1, 1, 2, 1.5})}, until: 8},
	} {
		in := make([]float32, 48)
		for i := range in {
			in[i] = float32((i*29)%17)/4 - 2
		}
		x, err := ort.NewTensor(ints(2, 2, 3, 4), in)
		if err != nil {
			t.Fatal(err)
		}
		for opset := max(7, c.from); opset <= c.until; opset++ {
			build := func() (*onnx.Builder, string) {
				b := onnx.NewBuilder("g", opset)
				names := []string{b.Input("x", pb.TensorProto_FLOAT, 2, 2, 3, 4)}
				if c.inputs != nil {
					names = append(names, c.inputs(b)...)
				}
				return b, b.Node(c.op, names, c.attrs...)
			}
			b, y := build()
			want := runModel(t, rt, modelWithOutputs(t, b, []string{y}), []*ort.Tensor{x})[0]
			b, y = build()
			b = upgraded(t, b)
			g, err := Gradient(b, "", []Seed{{Output: y}}, []string{"x"})
			if err != nil {
				t.Errorf("%s of operator set %d: %v", c.op, opset, err)
				continue
			}
			got := runModel(t, rt, modelWithOutputs(t, b, append([]string{y}, g...)), []*ort.Tensor{x})[0]
			var wide []float64
			for _, v := range want.Float32s() {
				wide = append(wide, float64(v))
			}
			if e := relativeError(got.Float32s(), wide); !(e <= 1e-6) || !slices.Equal(got.Shape(), want.Shape()) {
				t.Errorf("%s of operator set %d gives %v, upgraded %v", c.op, opset, want.Float32s(), got.Float32s())
			}
		}
	}
}
