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
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// TestTorchvisionGradients compares input gradients of log-softmax of the top
// class with PyTorch's in double precision, which
// testmodels/torchvision/gradients.py wrote beside the models. Each input of
// each network is to be within max(1e-3, twice PyTorch's error in single
// precision). It fails for 4 or 5 of 48, of googlenet, regnet_y_400mf,
// squeezenet1_1 and vgg16_bn: which side of a ReLU's kink a unit falls on is up
// to rounding.
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
			_, own := entry(t, strings.TrimSuffix(file, ".npz"), "pytorch_error")
			m, err := featurize.Open(context.Background(), path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path, Provider: "cpu", Threads: 2}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			size := len(x) / len(own)
			var errors, theirs strings.Builder
			for i, e32 := range own {
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
				fmt.Fprintf(&theirs, "%8.1e ", e32)
			}
			t.Logf("%-20s %-28s %s", name, errors.String(), theirs.String())
		})
	}
}
