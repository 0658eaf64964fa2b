package featurize_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestFormats checks that models with several element types, IR versions and fixed batches
// give the same features.
func TestFormats(t *testing.T) {
	rt := runtime(t)
	// modelOfType builds a model with elements of type to. Its constants are float32
	// numbers that are cast to this type.
	modelOfType := func(to pb.TensorProto_DataType) func(b *onnx.Builder) {
		return func(b *onnx.Builder) {
			as := func(name string) string { return b.Node("Cast", []string{name}, onnx.Attr("to", to)) }
			x := b.Input("x", to, "n", 3)
			phi := b.Node("Relu", []string{b.Node("MatMul", []string{x, as(b.Initializer("trunk", trunk, 3, h))})})
			y := b.Node("Gemm", []string{phi, as(b.Initializer("W", headW, c, h)), as(b.Initializer("b", headB))}, onnx.Attr("transB", 1))
			b.Output(y, to, "n", c)
		}
	}
	// modelWithCast builds a model whose integer input is cast to float32.
	modelWithCast := func(from pb.TensorProto_DataType) func(b *onnx.Builder) {
		return func(b *onnx.Builder) {
			addOutput(b, gemm(b, phiOf(b, b.Node("Cast", []string{b.Input("x", from, "n", 3)}, onnx.Attr("to", float)))))
		}
	}
	batch := func(n any) func(b *onnx.Builder) {
		return func(b *onnx.Builder) { addOutput(b, gemm(b, phiOf(b, b.Input("x", float, n, 3))), n, c) }
	}
	for name, k := range map[string]struct {
		build func(b *onnx.Builder)
		edit  func(m *pb.ModelProto)
		opset int64
		whole bool // whether inputs must be integers
		fixed int
		tol   float64
		dtype string
	}{
		"float32":  {build: modelOfType(float), dtype: "float32"},
		"float16":  {build: modelOfType(pb.TensorProto_FLOAT16), tol: 3e-3, dtype: "float16"},
		"double":   {build: modelOfType(pb.TensorProto_DOUBLE), dtype: "float64"},
		"uint8":    {build: modelWithCast(pb.TensorProto_UINT8), whole: true, dtype: "uint8"},
		"int8":     {build: modelWithCast(pb.TensorProto_INT8), whole: true, dtype: "int8"},
		"int32":    {build: modelWithCast(pb.TensorProto_INT32), whole: true, dtype: "int32"},
		"int64":    {build: modelWithCast(pb.TensorProto_INT64), whole: true, dtype: "int64"},
		"batch 1":  {build: batch(1), fixed: 1},
		"batch 3":  {build: batch(3), fixed: 3},
		"batch 64": {build: batch(64), fixed: 64},
		"batch 1 in the graph only": {fixed: 1, build: func(b *onnx.Builder) {
			x := b.Node("Reshape", []string{b.Input("x", float, "n", 3), b.Const([]int64{1, 3})})
			addOutput(b, gemm(b, phiOf(b, x)))
		}},
		"batch unnamed": {build: batch(-1)},
		"IR 3": {build: batch("n"), edit: func(m *pb.ModelProto) {
			m.IrVersion = proto.Int64(3)
			for _, w := range m.Graph.Initializer {
				dims := make([]any, len(w.Dims))
				for i, d := range w.Dims {
					dims[i] = d
				}
				m.Graph.Input = append([]*pb.ValueInfoProto{onnx.ValueInfo(w.GetName(), pb.TensorProto_DataType(w.GetDataType()), dims...)}, m.Graph.Input...)
			}
		}, opset: 8},
		"initializers that are inputs, IR 8": {build: batch("n"), edit: func(m *pb.ModelProto) {
			m.Graph.Input = append(m.Graph.Input, onnx.ValueInfo("W", float, c, h))
		}},
		"no names of nodes": {build: batch("n"), edit: func(m *pb.ModelProto) {
			for _, n := range m.Graph.Node {
				n.Name = nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if k.opset == 0 {
				k.opset = 13
			}
			if k.tol == 0 {
				k.tol = 1e-5
			}
			b := onnx.NewBuilder("tiny", k.opset)
			k.build(b)
			model, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			if k.edit != nil {
				k.edit(model)
			}
			m := open(t, rt, save(t, model), featurize.Options{Batch: 4})
			i := m.Info()
			if !i.Exact || i.FixedBatch != k.fixed || i.Feature.Width != h || len(i.Inputs) != 1 || k.dtype != "" && i.Inputs[0].DType != k.dtype {
				t.Errorf("found %+v, exact %v (%s), fixed batch %d, inputs %v", *i.Feature, i.Exact, i.ExactReason, i.FixedBatch, i.Inputs)
			}
			checkNear(t, "W", m.Last().Weight.Data, headW, 0)
			for _, n := range []int{1, 4, 7} {
				x := noise(3 * n)
				if k.whole {
					for j := range x {
						x[j] = float32(math.Floor(float64(x[j]*3 + 3)))
					}
				}
				got := runAll(t, m, []int{n, 3}, x)
				if got.Features.Rows != n || got.Logits.Rows != n {
					t.Fatalf("%d rows become %d", n, got.Features.Rows)
				}
				checkNear(t, "φ", got.Features.Data, trunkOf(x), k.tol)
				checkNear(t, "logits", got.Logits.Data, affine(trunkOf(x), headW, headB, h), k.tol)
			}
		})
	}
}

// externalise moves a model's weights to a separate file in dir. It returns the path of the
// model.
func externalise(t *testing.T, m *pb.ModelProto, dir, file string) string {
	t.Helper()
	var data []byte
	for _, w := range m.Graph.Initializer {
		kv := func(k, v string) *pb.StringStringEntryProto {
			return &pb.StringStringEntryProto{Key: proto.String(k), Value: proto.String(v)}
		}
		w.ExternalData = []*pb.StringStringEntryProto{kv("location", file), kv("offset", strconv.Itoa(len(data))), kv("length", strconv.Itoa(len(w.RawData)))}
		w.DataLocation = pb.TensorProto_EXTERNAL.Enum()
		data = append(data, w.RawData...)
		w.RawData = nil
	}
	if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.onnx")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExternalWeights checks models with external weights, and the errors if these are
// missing or truncated.
func TestExternalWeights(t *testing.T) {
	rt := runtime(t)
	b := onnx.NewBuilder("tiny", 17)
	addOutput(b, gemm(b, phiOf(b, b.Input("x", float, "n", 3))))
	model, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := externalise(t, model, dir, "weights.bin")
	m := open(t, rt, path, featurize.Options{})
	checkNear(t, "W", m.Last().Weight.Data, headW, 0)
	x := noise(9)
	checkNear(t, "φ", runAll(t, m, []int{3, 3}, x).Features.Data, trunkOf(x), 1e-6)

	// If the external weights change, the digest must change too.
	data, err := os.ReadFile(filepath.Join(dir, "weights.bin"))
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(data, math.Float32bits(9))
	if err := os.WriteFile(filepath.Join(dir, "weights.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if other := open(t, rt, path, featurize.Options{}); other.Base(attach.Regression).SHA256 == m.Base(attach.Regression).SHA256 {
		t.Error("the digest does not cover external data")
	}
	if err := os.Truncate(filepath.Join(dir, "weights.bin"), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := openErr(rt, path, featurize.Options{}); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("external data is cut: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "weights.bin")); err != nil {
		t.Fatal(err)
	}
	if _, err := openErr(rt, path, featurize.Options{}); err == nil || !strings.Contains(err.Error(), "weights.bin") {
		t.Errorf("external data is missing: %v", err)
	}
}
