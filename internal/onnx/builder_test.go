package onnx

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func TestBuilderNames(t *testing.T) {
	b := NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, "n", 3)
	y := b.Node("Relu", []string{x})
	z := b.Node("Relu", []string{y})
	if x != "x" || y == z {
		t.Errorf("names %q %q %q: x kept, the others different", x, y, z)
	}
	if c, d := b.Const(float32(2)), b.Const(float32(2)); c != d {
		t.Errorf("equal constants are %q and %q", c, d)
	}
	if c, d := b.Const(float32(2)), b.Const([]float32{2}); c == d {
		t.Error("a scalar and a vector share one constant")
	}
	if c, d := b.Initializer("w", []float32{1}), b.Initializer("w", []float32{1}); c != "w" || d == c {
		t.Errorf("initializers are %q and %q", c, d)
	}
	parts := b.NodeN(2, "Split", []string{z}, Attr("axis", 0))
	if len(parts) != 2 || parts[0] == parts[1] {
		t.Errorf("outputs %q", parts)
	}
	b.Output(parts[1], pb.TensorProto_FLOAT, -1, 3)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	if m.GetIrVersion() != 8 {
		t.Errorf("IR %d for opset 17, want 8", m.GetIrVersion())
	}
}

func TestBuilderSameBytes(t *testing.T) {
	build := func() []byte {
		b := NewBuilder("g", 17)
		x := b.Input("x", pb.TensorProto_FLOAT, "n", 3)
		y := b.Node("Gemm", []string{x, b.Const([]float32{1, 2, 3}, 3, 1)}, Attr("alpha", 2.0), Attr("transB", true))
		b.OutputAs("y", y, pb.TensorProto_FLOAT, "n", 1)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if !bytes.Equal(build(), build()) {
		t.Error("the same calls made different bytes")
	}
}

func TestBuilderExtend(t *testing.T) {
	for _, ir := range []int64{3, 8} {
		m := &pb.ModelProto{
			IrVersion:   proto.Int64(ir),
			OpsetImport: []*pb.OperatorSetIdProto{{Version: proto.Int64(13)}},
			Graph: &pb.GraphProto{
				Input: []*pb.ValueInfoProto{ValueInfo("const", pb.TensorProto_FLOAT, 2)},
				Node: []*pb.NodeProto{{
					OpType: proto.String("Relu"), Name: proto.String("Add"),
					Input: []string{"const"}, Output: []string{"Mul"},
				}},
			},
		}
		b := Extend(m)
		c := b.Const([]float32{1, 2})
		y := b.Node("Mul", []string{"Mul", c})
		z := b.Node("Add", []string{y, c})
		for _, name := range []string{c, y, z} {
			if name == "const" || name == "Mul" || name == "Add" {
				t.Errorf("IR %d: name %q was taken", ir, name)
			}
		}
		if got := len(m.Graph.Initializer); (got == 0) != (ir < 4) {
			t.Errorf("IR %d: %d initializers", ir, got)
		}
		if _, err := b.Model(); err != nil {
			t.Errorf("IR %d: %v", ir, err)
		}
		if b.Opset() != 13 {
			t.Errorf("opset %d, want 13", b.Opset())
		}
	}
}

func TestBuilderChecks(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(b *Builder)
		want  string
	}{
		{"unknown input", func(b *Builder) { b.Node("Relu", []string{"nothing"}) }, `"nothing"`},
		{"unknown output", func(b *Builder) { b.Output("nowhere", pb.TensorProto_FLOAT) }, `"nowhere"`},
		{"unknown domain", func(b *Builder) { b.Append(Node{Op: "Gelu", Domain: "com.example"}) }, "com.example"},
		{"made twice", func(b *Builder) {
			b.Append(Node{Op: "Constant", Outputs: []string{"x"}})
			b.Append(Node{Op: "Constant", Outputs: []string{"x"}})
		}, "twice"},
	} {
		b := NewBuilder("g", 17)
		test.build(b)
		if _, err := b.Model(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one that names %s", test.name, err, test.want)
		}
	}
}
