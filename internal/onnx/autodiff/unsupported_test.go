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

// TestUnsupported checks that an unsupported form of an operator gives an error with the
// operator and the reason, and never a gradient of 0.
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
		}, "one of two graphs"},
		{"If of a constant", 17, func(b *onnx.Builder, x string) string {
			return b.Node("If", []string{b.Const(true)}, onnx.Attr("then_branch", branch), onnx.Attr("else_branch", branch))
		}, "one of two graphs"},
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
		{"ReduceMax along axes of the run", 18, reduceRuntimeAxes("ReduceMax"), "its axes are not constant"},
		{"ReduceMin along axes of the run", 18, reduceRuntimeAxes("ReduceMin"), "its axes are not constant"},
		{"Einsum diagonal", 17, node("Einsum", 0, onnx.Attr("equation", "ii->i")), "diagonal"},
		{"QuantizeLinear by a scale of the data", 17, func(b *onnx.Builder, x string) string {
			scale := b.Node("ReduceMax", []string{x}, onnx.Attr("keepdims", 0))
			return b.Node("DequantizeLinear", []string{b.Node("QuantizeLinear", []string{x, scale}), scale})
		}, "scale"},
		{"QLinearMatMul", 17, func(b *onnx.Builder, x string) string {
			scale, zero := b.Const(float32(0.1)), zeroPoint(b, 0, uint8Type)
			q := b.Node("QuantizeLinear", []string{x, scale, zero})
			y := b.Node("QLinearMatMul", []string{q, scale, zero, castConst(b, ints(1, 2, 3), uint8Type, 3, 1), scale, zero, scale, zero})
			return b.Node("DequantizeLinear", []string{y, scale, zero})
		}, "QLinearMatMul (node \"node/QLinearMatMul\"): it computes with integers throughout"},
		{"Dropout in training", 17, func(b *onnx.Builder, x string) string {
			return b.Node("Dropout", []string{x, b.Const(float32(0.25)), b.Const(true)})
		}, "at random"},
		{"Dropout told when it runs", 17, func(b *onnx.Builder, x string) string {
			return b.Node("Dropout", []string{x, b.Const(float32(0.25)), b.Input("training", pb.TensorProto_BOOL)})
		}, "at random"},
		{"GroupNormalization of whole groups", 18, func(b *onnx.Builder, x string) string {
			y := b.Node("Reshape", []string{x, b.Const(ints(1, 3, 3))})
			return b.Node("GroupNormalization", []string{y, b.Const([]float32{1}), b.Const([]float32{0})}, onnx.Attr("num_groups", 1))
		}, "whole groups"},
		{"MaxPool by columns", 17, func(b *onnx.Builder, x string) string {
			y := b.Node("Reshape", []string{x, b.Const(ints(1, 1, 3, 3))})
			return b.NodeN(2, "MaxPool", []string{y}, attrList("kernel_shape", ints(2, 2), "storage_order", 1)...)[0]
		}, "by columns"},
		{"MaxPool with a window in its padding", 17, func(b *onnx.Builder, x string) string {
			y := b.Node("Reshape", []string{x, b.Const(ints(1, 1, 9))})
			return b.Node("MaxPool", []string{y}, attrList("kernel_shape", ints(2), "strides", ints(3), "pads", ints(0, 1), "ceil_mode", 1)...)
		}, "start in the padding"},
		{"rare operator", 17, node("ReduceProd", 0), "ReduceProd"},
		{"unknown contrib", 17, func(b *onnx.Builder, x string) string {
			b.Import(runtimeDomain, 1)
			return b.Append(onnx.Node{Op: "Attention", Domain: runtimeDomain, Inputs: []string{x}})[0]
		}, "com.microsoft.Attention (node \"node/Attention\"): it is ONNX Runtime's own"},
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

// reduceRuntimeAxes returns a function that appends a reduction. Its axes are an input of
// the graph, so they are known only at run time.
func reduceRuntimeAxes(op string) func(*onnx.Builder, string) string {
	return func(b *onnx.Builder, x string) string {
		return b.Node(op, []string{x, b.Input("axes", pb.TensorProto_INT64, 1)})
	}
}

// TestReduceMaxTies checks that elements that tie for the maximum share the gradient
// evenly.
func TestReduceMaxTies(t *testing.T) {
	rt := orttest.Open(t)
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 5)
	g, err := Gradient(b, "", []Seed{{Output: b.Node("ReduceMax", []string{x})}}, []string{x})
	if err != nil {
		t.Fatal(err)
	}
	in, _ := ort.NewTensor(ints(5), []float32{1, 3, 2, 3, 3})
	got := runModel(t, rt, modelWithOutputs(t, b, g), []*ort.Tensor{in})[0].Float32s()
	for i, want := range []float32{0, 1.0 / 3, 0, 1.0 / 3, 1.0 / 3} {
		if got[i] != want {
			t.Errorf("gradient %v, want thirds at the ties", got)
			break
		}
	}
}
