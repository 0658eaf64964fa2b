package autodiff

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestUnsupported holds that a form that a rule does not cover is an error
// that names the operator and why, and never a gradient of 0.
func TestUnsupported(t *testing.T) {
	float := func(v ...float32) func(b *onnx.Builder) string {
		return func(b *onnx.Builder) string { return b.Const(v) }
	}
	constants := []func(b *onnx.Builder) string{float(1, 2, 3), float(1, 2, 3), float(1, 2, 3), float(1, 2, 3)}
	node := func(op string, extra int, attrs ...*pb.AttributeProto) func(*onnx.Builder, string) string {
		return func(b *onnx.Builder, x string) string {
			in := []string{x}
			for _, c := range constants[:extra] {
				in = append(in, c(b))
			}
			return b.Node(op, in, attrs...)
		}
	}
	branch := &pb.GraphProto{
		Node:   []*pb.NodeProto{{OpType: proto.String("Neg"), Input: []string{"x"}, Output: []string{"z"}}},
		Output: []*pb.ValueInfoProto{onnx.ValueInfo("z", pb.TensorProto_FLOAT)},
	}
	for _, c := range []struct {
		name  string
		opset int64
		build func(b *onnx.Builder, x string) string
		want  string
	}{
		{"If that captures", 17, func(b *onnx.Builder, x string) string {
			return b.Node("Add", []string{x, b.Node("If", []string{b.Input("condition", pb.TensorProto_BOOL)}, onnx.Attr("then_branch", branch), onnx.Attr("else_branch", branch))})
		}, "branch"},
		{"If that draws", 17, func(b *onnx.Builder, x string) string {
			drawn := body(nil, &pb.NodeProto{OpType: proto.String("Dropout"), Input: []string{x}})
			return b.Node("If", []string{b.Const(true)}, onnx.Attr("then_branch", drawn), onnx.Attr("else_branch", branch))
		}, "draws"},
		{"Loop", 17, func(b *onnx.Builder, x string) string {
			return b.Node("Loop", []string{b.Const(int64(3)), b.Const(true), x}, onnx.Attr("body", branch))
		}, "how often"},
		{"BatchNormalization in training", 17, node("BatchNormalization", 4, onnx.Attr("training_mode", 1)), "training"},
		{"LayerNormalization's mean", 17, func(b *onnx.Builder, x string) string {
			y := b.NodeN(2, "LayerNormalization", []string{x, b.Const([]float32{1, 2, 3})})
			return b.Node("Add", []string{y[0], y[1]})
		}, "output 1"},
		{"Pad's value", 17, func(b *onnx.Builder, x string) string {
			return b.Node("Pad", []string{x, b.Const(ints(0, 0, 1, 1)), b.Node("ReduceSum", []string{x}, onnx.Attr("keepdims", 0))})
		}, "padding value"},
		{"ScatterND mul", 17, func(b *onnx.Builder, x string) string {
			return b.Node("ScatterND", []string{x, b.Const(ints(0), 1, 1), b.Const([]float32{1, 2, 3}, 1, 3)}, onnx.Attr("reduction", "mul"))
		}, "mul"},
		{"ReduceL2 of nothing", 18, node("ReduceL2", 0, onnx.Attr("noop_with_empty_axes", 1)), "no axes"},
		{"ReduceMax along axes of the run", 18, reducedAtRun("ReduceMax"), "its axes are not constant"},
		{"ReduceMin along axes of the run", 18, reducedAtRun("ReduceMin"), "its axes are not constant"},
		{"ReduceProd along axes of the run", 18, reducedAtRun("ReduceProd"), "its axes are not constant"},
		{"Einsum diagonal", 17, node("Einsum", 0, onnx.Attr("equation", "ii->i")), "diagonal"},
		{"QuantizeLinear by a scale of the data", 17, func(b *onnx.Builder, x string) string {
			scale := b.Node("ReduceMax", []string{x}, onnx.Attr("keepdims", 0))
			return b.Node("DequantizeLinear", []string{b.Node("QuantizeLinear", []string{x, scale}), scale})
		}, "scale"},
		{"unknown contrib", 17, func(b *onnx.Builder, x string) string {
			b.Import(runtimeDomain, 1)
			return b.Append(onnx.Node{Op: "Attention", Domain: runtimeDomain, Inputs: []string{x}})[0]
		}, "com.microsoft.Attention"},
		{"FusedMatMul of batches", 17, func(b *onnx.Builder, x string) string {
			b.Import(runtimeDomain, 1)
			return b.Append(onnx.Node{Op: "FusedMatMul", Domain: runtimeDomain, Inputs: []string{x, x},
				Attrs: []*pb.AttributeProto{onnx.Attr("transBatchA", 1)}})[0]
		}, "batch axis"},
	} {
		b := onnx.NewBuilder("g", c.opset)
		x := b.Input("x", pb.TensorProto_FLOAT, 3, 3)
		y := c.build(b, x)
		_, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %s", c.name, err, c.want)
		}
	}
}

// reducedAtRun reduces along axes that are an input.
func reducedAtRun(op string) func(*onnx.Builder, string) string {
	return func(b *onnx.Builder, x string) string {
		return b.Node(op, []string{x, b.Input("axes", pb.TensorProto_INT64, 1)})
	}
}

// TestDropoutInTraining holds that the gradient has the mask and the scale of
// the pass that it belongs to: y = x·slope.
func TestDropoutInTraining(t *testing.T) {
	rt := orttest.Open(t)
	for _, outputs := range []int{1, 2} {
		b := onnx.NewBuilder("g", 17)
		x := b.Input("x", pb.TensorProto_FLOAT, 64)
		y := b.NodeN(outputs, "Dropout", []string{x, b.Const(float32(0.25)), b.Const(true)}, onnx.Attr("seed", 3))[0]
		g, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
		if err != nil {
			t.Fatal(err)
		}
		declareOutputs(b, []string{y, g[0]})
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float32, 64)
		for i := range v {
			v[i] = float32(i % 5) // some are 0
		}
		in, _ := ort.NewTensor(ints(64), v)
		out := runModel(t, rt, m, []*ort.Tensor{in})
		dropped := 0
		for i, slope := range out[1].Float32s() {
			if got := out[0].Float32s()[i]; got-v[i]*slope > 1e-5 || v[i]*slope-got > 1e-5 {
				t.Errorf("y[%d] is %v, x·slope %v", i, got, v[i]*slope)
			}
			if slope == 0 {
				dropped++
			} else if slope < 1.333 || slope > 1.334 {
				t.Errorf("slope %v, want 0 or 4/3", slope)
			}
		}
		if dropped == 0 || dropped == 64 {
			t.Errorf("%d of 64 dropped", dropped)
		}
	}
}

// TestReduceMaxTies holds that elements that tie share the gradient.
func TestReduceMaxTies(t *testing.T) {
	rt := orttest.Open(t)
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 5)
	g, err := Gradient(b, "", []Seed{{Output: b.Node("ReduceMax", []string{x})}}, []string{x})
	if err != nil {
		t.Fatal(err)
	}
	in, _ := ort.NewTensor(ints(5), []float32{1, 3, 2, 3, 3})
	got := runModel(t, rt, outputs(t, b, g), []*ort.Tensor{in})[0].Float32s()
	for i, want := range []float32{0, 1.0 / 3, 0, 1.0 / 3, 1.0 / 3} {
		if got[i] != want {
			t.Errorf("gradient %v, want thirds at the ties", got)
			break
		}
	}
}

// TestReduceProdZeros compares the gradient where elements are 0.
func TestReduceProdZeros(t *testing.T) {
	rt := orttest.Open(t)
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 3, 3)
	g, err := Gradient(b, "", []Seed{{Output: b.Node("ReduceProd", []string{x}, onnx.Attr("axes", ints(1)))}}, []string{x})
	if err != nil {
		t.Fatal(err)
	}
	in, _ := ort.NewTensor(ints(3, 3), []float32{2, 3, 4, 2, 0, 4, 0, 3, 0})
	got := runModel(t, rt, outputs(t, b, g), []*ort.Tensor{in})[0].Float32s()
	for i, want := range []float32{12, 8, 6, 0, 8, 0, 0, 0, 0} {
		if got[i] != want {
			t.Errorf("gradient %v at %d, want %v", got[i], i, want)
		}
	}
}
