package autodiff

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// raised goes on with a graph of any operator set.
func raised(t *testing.T, b *onnx.Builder) *onnx.Builder {
	t.Helper()
	g, err := onnx.Raise(b.Index(), "")
	if err != nil {
		t.Fatal(err)
	}
	return onnx.Extend(g.Model)
}

// declareOutputs adds outputs of any type.
func declareOutputs(b *onnx.Builder, tensors []string) {
	for _, o := range tensors {
		b.OutputAs("out", o, pb.TensorProto_DOUBLE)
		b.Graph().Output[len(b.Graph().Output)-1].Type = nil
	}
}

func outputs(t *testing.T, b *onnx.Builder, tensors []string) *pb.ModelProto {
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

// TestRaise holds that nodes of old operator sets compute in the raised graph what
// they did before.
func TestRaise(t *testing.T) {
	rt := orttest.Open(t)
	for _, r := range references(t) {
		if r.From >= onnx.Raised {
			continue
		}
		b, _, y, in := r.build(r.From, false)
		want := runModel(t, rt, outputs(t, b, []string{y}), in)[0].Float32s()
		b, _, y, in = r.build(r.From, false)
		got := runModel(t, rt, outputs(t, raised(t, b), []string{y}), in)[0].Float32s()
		if !slices.Equal(got, want) {
			t.Errorf("%s of operator set %d gives %v, raised %v", r.Name, r.From, want, got)
		}
	}
	scaler := func() *onnx.Builder {
		b := onnx.NewBuilder("g", 8)
		b.Node("ImageScaler", []string{b.Input("x", pb.TensorProto_FLOAT, 1, 2, 1, 2)}, onnx.Attr("scale", 2.), onnx.Attr("bias", []float32{1, -1}))
		return b
	}
	in := []float32{1, 2, 3, 4}
	x, _ := ort.NewTensor(ints(1, 2, 1, 2), in)
	for _, b := range []*onnx.Builder{scaler(), raised(t, scaler())} {
		if got := runModel(t, rt, outputs(t, b, []string{"ImageScaler"}), []*ort.Tensor{x})[0].Float32s(); !slices.Equal(got, []float32{3, 5, 5, 7}) {
			t.Errorf("an ImageScaler gives %v", got)
		}
	}
	b := onnx.NewBuilder("g", 9)
	b.Node("Upsample", []string{b.Input("x", pb.TensorProto_FLOAT, 3)}) // without scales
	raised(t, b)
	for _, c := range []struct {
		op, attribute string
		value         any
		inputs        int
		opset         int64
		want          string
	}{
		{"BatchNormalization", "spatial", 0, 5, 7, "per element"},
		{"Scan", "num_scan_inputs", 1, 2, 8, "batch axis"},
	} {
		b := onnx.NewBuilder("g", c.opset)
		b.Append(onnx.Node{Op: c.op, Name: "it", Inputs: make([]string, c.inputs), Attrs: []*pb.AttributeProto{onnx.Attr(c.attribute, c.value)}})
		if _, err := onnx.Raise(b.Index(), ""); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "node/it") {
			t.Errorf("%s: error %v, want one that says %s and names the node", c.op, err, c.want)
		}
	}
}
