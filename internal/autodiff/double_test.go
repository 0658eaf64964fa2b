package autodiff

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/double"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// TestDouble compares derivatives of graphs that were made double with central
// differences, so closely that anything in single precision would show.
func TestDouble(t *testing.T) {
	rt := orttest.Open(t)
	for _, c := range allCases() {
		c.wide = true
		for mode, dims := range shapeModes {
			// Gradients with respect to the weights of a convolution are
			// convolutions with a kernel as large as the image.
			sized := mode == "static" || !strings.Contains(c.name, "by weights")
			if c.name != "Resize antialias" && sized {
				t.Run(c.name+"/"+mode, func(t *testing.T) { checkCase(t, rt, c, dims) })
			}
		}
	}
}

// TestDoubleForward compares what graphs that were made double compute with
// what the runtime's kernels in single precision do.
func TestDoubleForward(t *testing.T) {
	rt := orttest.Open(t)
	for _, c := range allCases() {
		if c.name == "Resize antialias" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			in := values(c)
			b, x, y := buildCase(c, "static")
			flat := func(b *onnx.Builder, y string) []string { // the binding returns no scalars
				return []string{b.Node("Reshape", []string{y, b.Const(ints(-1))})}
			}
			want := runModel(t, rt, outputs(t, b, flat(b, y)), in)[0].AppendFloat32s(nil)
			b = onnx.NewBuilder("case", b.Opset())
			for i, shape := range c.shapes {
				b.Input(x[i], pb.TensorProto_DOUBLE, shapeModes["symbols"](i, shape)...)
			}
			b, y = widened(t, b, x, c)
			declareOutputs(b, flat(b, y))
			lowered(t, b)
			raw, err := b.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			s, err := rt.NewSession(context.Background(), ort.Model{Data: raw, Unfused: true}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out, err := s.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			defer out[0].Close()
			got := out[0].Float64s()
			if len(got) != len(want) {
				t.Fatalf("%d numbers, want %d", len(got), len(want))
			}
			for i, g := range got {
				if w := float64(want[i]); !(math.Abs(g-w) <= 1e-6*(1+math.Abs(w))) {
					t.Errorf("element %d is %v, in single precision %v", i, g, w)
				}
			}
		})
	}
}

// widened builds a case in single precision on inputs that b has already, and
// makes it double.
func widened(t *testing.T, b *onnx.Builder, x []string, c graphCase) (wide *onnx.Builder, y string) {
	t.Helper()
	for _, v := range b.Graph().Input {
		v.GetType().GetTensorType().ElemType = proto.Int32(int32(pb.TensorProto_FLOAT))
	}
	y = c.build(b, x)
	m := modelOf(t, b)
	if err := double.Promote(m, ""); err != nil {
		t.Fatal(err)
	}
	return onnx.Extend(m), y
}

func lowered(t *testing.T, b *onnx.Builder) {
	t.Helper()
	if err := double.Lower(modelOf(t, b), Types(b.Index(), "")); err != nil {
		t.Fatal(err)
	}
}

func modelOf(t *testing.T, b *onnx.Builder) *pb.ModelProto {
	t.Helper()
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDoubleRefuses holds that what cannot be computed in double precision is
// an error that names the operator and the node.
func TestDoubleRefuses(t *testing.T) {
	build := func(make func(b *onnx.Builder, x string) string, dims ...any) error {
		b := onnx.NewBuilder("case", 18)
		b.Output(make(b, b.Input("x", pb.TensorProto_FLOAT, dims...)), pb.TensorProto_FLOAT)
		m := modelOf(t, b)
		if err := double.Promote(m, ""); err != nil {
			return err
		}
		b = onnx.Extend(m)
		return double.Lower(m, Types(b.Index(), ""))
	}
	named := func(op string, inputs []string, attrs ...*pb.AttributeProto) onnx.Node {
		return onnx.Node{Op: op, Name: "culprit", Inputs: inputs, Attrs: attrs}
	}
	for op, err := range map[string]error{
		"Det": build(func(b *onnx.Builder, x string) string { return b.Append(named("Det", []string{x}))[0] }, 3, 3),
		"QuantizeLinear": build(func(b *onnx.Builder, x string) string {
			s := b.Const(float32(.5))
			return b.Node("DequantizeLinear", []string{b.Append(named("QuantizeLinear", []string{x, s}))[0], s})
		}, 3),
		"Resize": build(func(b *onnx.Builder, x string) string {
			return b.Append(named("Resize", []string{x, "", b.Const([]float32{1, 1, .5, .5})}, window("mode", "linear", "antialias", 1)...))[0]
		}, 1, 1, 4, 4),
		"Conv": build(func(b *onnx.Builder, x string) string {
			return b.Append(named("Conv", []string{b.Const(make([]float32, 16), 1, 1, 4, 4), x}))[0]
		}, "a", "b", "c", "d"),
		"Erf": build(func(b *onnx.Builder, x string) string {
			branch := func(name string) *pb.GraphProto {
				then := onnx.NewBuilder(name, 18)
				then.Output(then.Append(onnx.Node{Op: "Erf", Name: "culprit", Inputs: []string{x}, Outputs: []string{name}})[0], pb.TensorProto_FLOAT, 3)
				return then.Graph()
			}
			return b.Node("If", []string{b.Const(true)}, onnx.Attr("then_branch", branch("then")), onnx.Attr("else_branch", branch("else")))
		}, 3),
	} {
		var unsupported *double.UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Op != op || !strings.HasSuffix(unsupported.Node, "culprit") {
			t.Errorf("%s: error %v, want one that names the operator and its node", op, err)
		}
	}
}
