package featurize

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestTritonConfig checks the configurations of a model that takes batches, and of one that
// takes one row. testdata/triton.py reads them with Triton's own schema.
func TestTritonConfig(t *testing.T) {
	for name, rows := range map[string]any{"batches": "n", "one": 1} {
		b := onnx.NewBuilder("test", 17)
		b.Input("x", pb.TensorProto_FLOAT, rows, 3, "length")
		b.Optional("attach.alpha", []float32{.05}, 1)
		for _, o := range []struct {
			name string
			t    pb.TensorProto_DataType
			dims []any
		}{{"logits", pb.TensorProto_DOUBLE, []any{rows, 10}}, {"attach.p_value", pb.TensorProto_FLOAT, []any{rows}}} {
			b.OutputAs(o.name, b.Const(float32(0)), o.t, o.dims...)
		}
		// An output without a shape is left out.
		b.OutputAs("more", b.Const(float32(0)), pb.TensorProto_FLOAT)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		m.Graph.Output[2].Type.GetTensorType().Shape = nil
		path := filepath.Join(t.TempDir(), "model.onnx")
		if _, err := onnx.Save(context.Background(), m, "", path); err != nil {
			t.Fatal(err)
		}
		got, notes, err := TritonConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "more") {
			t.Errorf("notes %q", notes)
		}
		want, err := os.ReadFile("testdata/triton-" + name + ".pbtxt")
		if err != nil || got != string(want) {
			t.Errorf("%s: the configuration is\n%s\nerror %v", name, got, err)
		}
		// Converters of trees may write probabilities as a list of maps.
		m.Graph.Output[2].Type = &pb.TypeProto{Value: &pb.TypeProto_SequenceType{}}
		if _, err := onnx.Save(context.Background(), m, "", path); err != nil {
			t.Fatal(err)
		}
		if _, _, err := TritonConfig(path); err == nil || !strings.Contains(err.Error(), "output more is no tensor") {
			t.Errorf("an output that is no tensor gives %v", err)
		}
	}
}
