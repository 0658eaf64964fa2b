package featurize_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// TestTorchvision compares φ and logits with what forward hooks caught in
// PyTorch. Its folder is made by testmodels/torchvision/export.py.
func TestTorchvision(t *testing.T) {
	dir := os.Getenv("ATTACH_TORCHVISION")
	if dir == "" {
		t.Skip("set ATTACH_TORCHVISION to a folder that testmodels/torchvision/export.py made")
	}
	rt := orttest.Open(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models in %s (%v)", dir, err)
	}
	t.Logf("%-20s %-8s %6s %10s %10s %-6s %s", "network", "layer", "width", "features", "logits", "exact", "tensor")
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		shape, x := entry(t, path, "x")
		_, phi := entry(t, path, "features")
		_, logits := entry(t, path, "logits")
		ctx := context.Background()
		m, err := featurize.Open(ctx, path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path, Provider: "cpu", Threads: 2}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := m.All(ctx, featurize.Single(ood.BlockOf(shape, x)), shape[0], nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			m.Close()
			continue
		}
		f, l := relative(b.Features.Data, phi), relative(b.Logits.Data, logits)
		i := m.Info()
		t.Logf("%-20s %-8s %6d %10.2g %10.2g %-6v %s", name, i.Feature.Op, i.Feature.Width, f, l, i.Exact, i.Feature.Tensor)
		if !(f <= 1e-4) || !(l <= 1e-4) {
			t.Errorf("%s: relative error %.2g of the features and %.2g of the logits, at most 1e-4 allowed", name, f, l)
		}
		m.Close()
	}
}

// entry reads an array of the npz beside a model.
func entry(t *testing.T, model, name string) (shape []int, data []float32) {
	t.Helper()
	z, err := npy.OpenNPZ(strings.TrimSuffix(model, ".onnx") + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	e, err := z.Entry(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err = e.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return e.Shape, data
}
