package onnx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// smallModel returns a serialized model that computes y = relu(x·w + 1).
func smallModel(t testing.TB) []byte {
	t.Helper()
	b := NewBuilder("small", 13)
	x := b.Input("x", pb.TensorProto_FLOAT, "n", 3)
	y := b.Node("MatMul", []string{x, b.Initializer("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2)})
	y = b.Node("Relu", []string{b.Node("Add", []string{y, b.Const(float32(1))})})
	b.Output(y, pb.TensorProto_FLOAT, "n", 2)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// nestedModel returns a serialized model with the given number of nested If branches.
func nestedModel(t testing.TB, levels int) []byte {
	t.Helper()
	body := &pb.GraphProto{Node: []*pb.NodeProto{newNode("Neg", []string{"x"}, []string{"y"})}}
	for range levels {
		body = &pb.GraphProto{Node: []*pb.NodeProto{newNode("If", []string{"c"}, []string{"y"}, Attr("then_branch", body))}}
	}
	body.Output = []*pb.ValueInfoProto{ValueInfo("y", pb.TensorProto_FLOAT)}
	b, err := proto.Marshal(&pb.ModelProto{IrVersion: proto.Int64(8), Graph: body})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseErrors(t *testing.T) {
	good := smallModel(t)
	withoutGraph, err := proto.Marshal(&pb.ModelProto{IrVersion: proto.Int64(8), ProducerName: proto.String("p")})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty":     nil,
		"text":      []byte("<!DOCTYPE html><html>404 not found</html>"),
		"a pickle":  []byte("\x80\x02}q\x00(X\x05\x00\x00\x00statesq\x01."),
		"a PNG":     []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
		"zeros":     make([]byte, 64),
		"no graph":  withoutGraph,
		"truncated": good[:len(good)*2/3],
		"too deep":  nestedModel(t, 33),
	} {
		_, err := Parse(b)
		if !errors.Is(err, ErrNotONNX) {
			t.Errorf("%s: error %v, want one that wraps ErrNotONNX", name, err)
		} else if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %q", name, err)
		}
	}
	if _, err := Parse(nestedModel(t, 32)); err != nil {
		t.Errorf("as deep as ONNX Runtime reads: %v", err)
	}
	for n := range len(good) {
		if g, err := Parse(good[:n]); err == nil && len(g.Outputs()) == 0 {
			t.Errorf("the first %d of %d bytes are accepted without outputs", n, len(good))
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	if err := os.WriteFile(path, smallModel(t)[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, dir, filepath.Join(dir, "absent.onnx")} {
		if _, err := Load(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v does not name %s", err, p)
		}
	}
	if err := os.WriteFile(path, smallModel(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
}

// TestParseKeepsUnknownFields checks that Parse keeps unknown fields and newer versions, so that a
// model can be written again without loss.
func TestParseKeepsUnknownFields(t *testing.T) {
	b := smallModel(t)
	b = protowire.AppendTag(b, 1999, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("from the future"))
	g, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	g.Model.IrVersion = proto.Int64(99)
	g.Model.OpsetImport[0].Version = proto.Int64(2000)
	b, err = proto.Marshal(g.Model)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(b)
	if err != nil {
		t.Fatalf("a newer model is refused: %v", err)
	}
	if again.Opset() != 2000 || !bytes.Contains(again.Model.ProtoReflect().GetUnknown(), []byte("from the future")) {
		t.Error("an unknown field or a newer version was lost")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(smallModel(f))
	f.Add(smallModel(f)[:40])
	f.Add([]byte{})
	sub, err := proto.Marshal(&pb.ModelProto{IrVersion: proto.Int64(3), Graph: &pb.GraphProto{
		Node: []*pb.NodeProto{
			newNode("If", []string{"c"}, []string{"y"}, Attr("then_branch", &pb.GraphProto{Output: []*pb.ValueInfoProto{ValueInfo("x", pb.TensorProto_FLOAT)}})),
			newNode("Constant", nil, []string{"k"}, Attr("value", &pb.TensorProto{Dims: []int64{1 << 40, 1 << 40}, DataType: proto.Int32(1)})),
			newNode("Identity", []string{"k"}, []string{"k"}),
			newNode("Constant", nil, nil),
			newNode("Constant", nil, []string{"s"}, &pb.AttributeProto{Name: proto.String("sparse_value"), SparseTensor: &pb.SparseTensorProto{Values: externalTensor("w.bin", "0", "8")}}),
		},
		Initializer: []*pb.TensorProto{externalTensor("../secret", "-1", "x")},
		Output:      []*pb.ValueInfoProto{ValueInfo("y", pb.TensorProto_FLOAT)},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sub)
	f.Add(nestedModel(f, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Parse(b)
		if err != nil {
			return
		}
		g.Opset()
		g.Inputs()
		if _, err := g.External(); err == nil {
			CheckExternal(g.Model, t.TempDir())
		}
		for _, n := range g.Model.GetGraph().GetNode() {
			g.NodeName(n)
			for _, name := range append(Reads(n), n.GetOutput()...) {
				g.Producer(name)
				g.Consumers(name)
				if c, ok := g.Const(name); ok {
					Float32s(c, "")
					Int64s(c, "")
				}
			}
		}
		for _, c := range g.Model.GetGraph().GetInitializer() {
			Float32s(c, "")
		}
		again, err := proto.Marshal(g.Model)
		if err != nil {
			t.Fatalf("a parsed model cannot be serialized: %v", err)
		}
		if _, err := Parse(again); err != nil {
			t.Fatalf("a serialized model cannot be parsed: %v", err)
		}
	})
}
