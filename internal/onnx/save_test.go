package onnx

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestSave checks that weights survive three saves: inside the model file, in a data file,
// and inside the model file again.
func TestSave(t *testing.T) {
	want := make([]float32, 3000)
	for i := range want {
		want[i] = float32(i) / 7
	}
	b := NewBuilder("test", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 3000)
	b.OutputAs("y", b.Node("Add", []string{x, b.Initializer("w", want)}), pb.TensorProto_FLOAT, 3000)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "m.onnx")
	for _, step := range []struct {
		limit int64
		data  string
	}{{maxInline, ""}, {0, at + ".data"}, {maxInline, ""}} {
		data, err := save(context.Background(), m, dir, at, step.limit)
		if err != nil || data != step.data {
			t.Fatalf("weights in %q (%v)", data, err)
		}
		g, err := Load(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckExternal(g.Model, dir); err != nil {
			t.Fatal(err)
		}
		w, _ := g.Const("w")
		if got, _, err := Float32s(w, dir); err != nil || !slices.Equal(got, want) {
			t.Fatalf("weights changed (%v)", err)
		}
		m = g.Model
	}
	if _, err := save(context.Background(), m, dir, filepath.Join(dir, "no", "m.onnx"), 0); err == nil {
		t.Error("saving to a missing folder succeeded")
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Errorf("%d files are left", len(list))
	}
}
