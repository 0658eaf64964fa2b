package featurize_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// BenchmarkGradients times batches of 8 images forward, and forward with the
// gradient of log-softmax of the top class. testmodels/torchvision/cost.py
// runs it beside PyTorch.
func BenchmarkGradients(b *testing.B) {
	dir := os.Getenv("ATTACH_TORCHVISION")
	if dir == "" {
		b.Skip("set ATTACH_TORCHVISION to a folder that testmodels/torchvision/export.py made")
	}
	rt := orttest.Open(b)
	for _, name := range []string{"resnet18", "vgg16_bn", "resnet50"} {
		for _, what := range []string{"forward", "gradient"} {
			b.Run(name+"/"+what, func(b *testing.B) {
				ctx := context.Background()
				m, err := featurize.Open(ctx, filepath.Join(dir, name+".onnx"), featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path, Provider: "cpu", Threads: 2}, Batch: 8})
				if err != nil {
					b.Fatal(err)
				}
				defer m.Close()
				shape := []int{8, 3, 224, 224}
				x := noise(8 * 3 * 224 * 224)
				step := func() {
					if what == "forward" {
						_, err = m.All(ctx, featurize.Single(ood.BlockOf(shape, x)), 8, nil)
						if err != nil {
							b.Fatal(err)
						}
						return
					}
					gradients(b, m, shape, x, featurize.GradientOptions{})
				}
				best(b, step)
			})
		}
	}
}

// best reports the shortest time of a step, but for the first.
func best(b *testing.B, step func()) {
	step()
	best := math.Inf(1)
	for b.Loop() {
		start := time.Now()
		step()
		best = min(best, time.Since(start).Seconds())
	}
	b.ReportMetric(1000*best, "best-ms")
}
