package featurize_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// TestTorchvision compares φ and logits with values that forward hooks recorded in PyTorch.
// testmodels/torchvision/export.py creates the folder of models and values.
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

// entry reads an array from the .npz file beside a model.
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

// TestTorchvisionGradients compares input gradients of the top class's log-softmax with
// PyTorch's in double precision, which testmodels/torchvision/gradients.py recorded. For
// each input, the error must be at most max(1e-3, twice PyTorch's error in single
// precision). The test fails for 4 or 5 of all 48 inputs. These belong to googlenet,
// regnet_y_400mf, squeezenet1_1 and vgg16_bn. For them, rounding decides whether a ReLU
// unit is on or off.
func TestTorchvisionGradients(t *testing.T) {
	dir := os.Getenv("ATTACH_TORCHVISION")
	if dir == "" {
		t.Skip("set ATTACH_TORCHVISION to a folder that testmodels/torchvision/export.py and gradients.py made")
	}
	rt := orttest.Open(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.gradient.npz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no gradients in %s (%v): run testmodels/torchvision/gradients.py", dir, err)
	}
	t.Logf("%-20s %-28s %s", "network", "error on each input", "PyTorch's in single precision")
	for _, file := range files {
		path := strings.TrimSuffix(file, ".gradient.npz") + ".onnx"
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		t.Run(name, func(t *testing.T) {
			shape, x := entry(t, strings.TrimSuffix(file, ".npz"), "x")
			_, want := entry(t, strings.TrimSuffix(file, ".npz"), "gradient")
			_, pytorchError := entry(t, strings.TrimSuffix(file, ".npz"), "pytorch_error")
			m, err := featurize.Open(context.Background(), path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path, Provider: "cpu", Threads: 2}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			size := len(x) / len(pytorchError)
			var errors, pytorchErrors strings.Builder
			for i, e32 := range pytorchError {
				var got []float32
				for b, err := range m.Gradients(context.Background(), featurize.Single(ood.BlockOf(shape[1:], x[i*size:(i+1)*size])), featurize.GradientOptions{}) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, b.Gradient.Data...)
				}
				e := relative(got, want[i*size:(i+1)*size])
				if limit := math.Max(1e-3, 2*float64(e32)); !(e <= limit) {
					t.Errorf("input %d: error %.1e, bound %.1e", i, e, limit)
				}
				fmt.Fprintf(&errors, "%8.1e ", e)
				fmt.Fprintf(&pytorchErrors, "%8.1e ", e32)
			}
			t.Logf("%-20s %-28s %s", name, errors.String(), pytorchErrors.String())
		})
	}
}
