package featurize_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// sharedModels returns the folder of trained models beside the data sets.
func sharedModels(t testing.TB) string {
	t.Helper()
	data := os.Getenv("ATTACH_DATA")
	if data == "" {
		t.Skip("ATTACH_DATA names no folder of data sets, with networks beside it")
	}
	return filepath.Join(data, "..", "models")
}

// load reads a model without editing it.
func load(t testing.TB, path string) ort.Model {
	t.Helper()
	g, err := onnx.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return ort.Model{Proto: g.Model, Dir: filepath.Dir(path)}
}

// runUnedited runs the unedited model and returns one output.
func runUnedited(t testing.TB, rt *ort.Runtime, path, output string, shape []int64, x []float32) []float32 {
	t.Helper()
	s, err := rt.NewSession(context.Background(), load(t, path), nil, []string{output})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in, err := ort.NewTensor(shape, x)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := s.Run(context.Background(), []*ort.Tensor{in})
	if err != nil {
		t.Fatal(err)
	}
	defer out[0].Close()
	return append([]float32(nil), out[0].Float32s()...)
}

// relative returns ‖a−b‖₂/‖b‖₂, or ‖a‖₂ if b is 0.
func relative(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var num, den float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		num += d * d
		den += float64(b[i]) * float64(b[i])
	}
	if den == 0 {
		return math.Sqrt(num)
	}
	return math.Sqrt(num / den)
}

// noise returns a fixed sequence of n pseudorandom numbers in [−1, 1).
func noise(n int) []float32 {
	x := make([]float32, n)
	s := uint32(1)
	for i := range x {
		s = s*1664525 + 1013904223
		x[i] = float32(s>>8)/(1<<23) - 1
	}
	return x
}

// TestSharedModels checks the feature, the last layer and the logits of trained models of
// many kinds.
func TestSharedModels(t *testing.T) {
	dir := sharedModels(t)
	rt := orttest.Open(t)
	for _, c := range []struct {
		file, task, tensor, op string
		h, c                   int
		exact                  bool
		shape                  []int // shape of one row
	}{
		{"mnist_vgg11w32.onnx", "classification", "/Flatten_output_0", "Gemm", 256, 5, true, []int{1, 32, 32}},
		{"fashion_preact18w32.onnx", "classification", "/Flatten_output_0", "Gemm", 256, 5, true, []int{1, 32, 32}},
		{"cifar10_preact18.onnx", "classification", "/Flatten_output_0", "Gemm", 512, 5, true, []int{3, 32, 32}},
		{"cifar10_vgg11w32.onnx", "classification", "/Flatten_output_0", "Gemm", 256, 5, true, []int{3, 32, 32}},
		{"cifar10_resnet20.onnx", "classification", "features", "Gemm", 64, 10, true, []int{3, 32, 32}},
		{"cifar10_resnet56.onnx", "classification", "features", "Gemm", 64, 10, true, []int{3, 32, 32}},
		{"cifar10_conv_nhwc.onnx", "classification", "sequential_2/dense_7/Relu:0", "MatMul", 64, 10, true, []int{32, 32, 3}},
		{"mnist_cnn.onnx", "classification", "/relu_2/Relu_output_0", "Gemm", 128, 10, true, []int{1, 28, 28}},
		{"imagenet_mobilenetv2_int8.onnx", "classification", "472", "MatMulInteger", 1280, 1000, false, []int{3, 224, 224}},
		{"imagenet_squeezenet1.0.onnx", "classification", "fire9_concat", "Conv", 512, 1000, false, []int{3, 227, 227}},
		{"california_mlp.onnx", "regression", "/act3/Relu_output_0", "Gemm", 16, 1, true, []int{8}},
	} {
		t.Run(c.file, func(t *testing.T) {
			path := filepath.Join(dir, c.file)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("the shared network %s is absent", c.file)
			}
			ctx := context.Background()
			m, err := featurize.Open(ctx, path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path, Provider: "cpu", Threads: 2}, Batch: 2, Task: attach.Classification}) // so that a regressor of a table reads its last layer too
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			i := m.Info()
			if i.Feature.Tensor != c.tensor || i.Feature.Op != c.op || i.Feature.Width != c.h || i.OutputsWidth != c.c {
				t.Errorf("found %+v with %d outputs, want %s of width %d before %s with %d outputs", *i.Feature, i.OutputsWidth, c.tensor, c.h, c.op, c.c)
			}
			if string(i.Task) != c.task || i.Exact != c.exact || i.Exact != (i.ExactReason == "") {
				t.Errorf("task %s, exact %v (%s), want %s and %v", i.Task, i.Exact, i.ExactReason, c.task, c.exact)
			}
			if l := m.Last(); l == nil || l.Weight.Rows != c.c || l.Weight.Cols != c.h || len(l.Bias) != c.c {
				t.Fatalf("the last layer is not %d×%d", c.c, c.h)
			}
			if i.ExactError == nil || i.Exact && *i.ExactError > 1e-5 {
				t.Errorf("relative error of Wφ+b is %v", i.ExactError)
			}

			const n = 3
			shape := append([]int{n}, c.shape...)
			dims, size := []int64{}, 1
			for _, d := range shape {
				dims, size = append(dims, int64(d)), size*d
			}
			x := noise(size)
			b, err := m.All(ctx, featurize.Single(ood.BlockOf(shape, x)), n, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b.Features.Rows != n || b.Features.Cols != c.h || b.Logits.Rows != n || b.Logits.Cols != c.c {
				t.Fatalf("features %d×%d, logits %d×%d", b.Features.Rows, b.Features.Cols, b.Logits.Rows, b.Logits.Cols)
			}
			// With dynamic quantisation, all rows of a batch share one scale, so the logits
			// depend on the batch. The model must therefore run on a batch of the same
			// rows.
			want := runUnedited(t, rt, path, i.Output, append([]int64{2}, dims[1:]...), x[:2*size/n])
			if e := relative(b.Logits.Data[:2*c.c], want); e > 1e-5 {
				t.Errorf("logits differ from the model's output by %.2g", e)
			}
		})
	}
}
