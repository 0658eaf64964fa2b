package featurize_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// The tiny models of these tests map x (n×3) to features φ = relu(x·trunk) (n×4) and to
// logits φ·Wᵀ + b (n×2). So the expected values can be computed directly.
var (
	trunk = []float32{ // shape 3×4
		1, -1, .5, 2,
		-.5, 1, 1, -1,
		.25, .5, -1, 1,
	}
	headW = []float32{ // shape 2×4
		1, 2, -1, .5,
		-2, 1, .25, 1,
	}
	headWT = []float32{1, -2, 2, 1, -1, .25, .5, 1} // shape 4×2
	headB  = []float32{.5, -1}
)

const float, h, c = pb.TensorProto_FLOAT, 4, 2

// trunkOf computes the features φ of rows x (n×3).
func trunkOf(x []float32) []float32 {
	var phi []float32
	for ; len(x) > 0; x = x[3:] {
		for j := range h {
			phi = append(phi, max(0, x[0]*trunk[j]+x[1]*trunk[h+j]+x[2]*trunk[2*h+j]))
		}
	}
	return phi
}

// affine computes φ·Wᵀ + b, where W is c×h.
func affine(phi, w, b []float32, h int) []float32 {
	var y []float32
	for ; len(phi) > 0; phi = phi[h:] {
		for i := range b {
			s := b[i]
			for j := range h {
				s += phi[j] * w[i*h+j]
			}
			y = append(y, s)
		}
	}
	return y
}

// tiny builds a model whose input x has the given dimensions. It returns the path of the
// model.
func tiny(t testing.TB, opset int64, build func(b *onnx.Builder, x string), dims ...any) string {
	t.Helper()
	b := onnx.NewBuilder("tiny", opset)
	build(b, b.Input("x", float, dims...))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return save(t, m)
}

// save writes a model to a temporary file and returns the path.
func save(t testing.TB, m *pb.ModelProto) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// phiOf adds the nodes that compute the features φ from x.
func phiOf(b *onnx.Builder, x string) string {
	return b.Node("Relu", []string{b.Node("MatMul", []string{x, b.Initializer("trunk", trunk, 3, h)})})
}

// gemm adds the last layer, which computes logits from φ.
func gemm(b *onnx.Builder, phi string) string {
	return b.Node("Gemm", []string{phi, b.Initializer("W", headW, c, h), b.Initializer("b", headB)}, onnx.Attr("transB", 1))
}

// addOutput declares a float32 output. Its default shape is n×c.
func addOutput(b *onnx.Builder, tensor string, dims ...any) {
	if dims == nil {
		dims = []any{"n", c}
	}
	b.Output(tensor, float, dims...)
}

// open opens a model on the CPU and closes it at the end of the test.
func open(t testing.TB, rt *ort.Runtime, path string, o featurize.Options) *featurize.Model {
	t.Helper()
	m, err := openErr(rt, path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// openErr opens a model on the CPU.
func openErr(rt *ort.Runtime, path string, o featurize.Options) (*featurize.Model, error) {
	o.Library, o.Provider, o.Threads = rt.Library().Path, "cpu", 1
	return featurize.Open(context.Background(), path, o)
}

// runAll runs the model on rows in memory.
func runAll(t testing.TB, m *featurize.Model, shape []int, x []float32) ood.Batch {
	t.Helper()
	b, err := m.All(context.Background(), featurize.Single(ood.BlockOf(shape, x)), shape[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkNear fails the test if the relative error of got exceeds tol.
func checkNear(t testing.TB, what string, got, want []float32, tol float64) {
	t.Helper()
	if e := relative(got, want); !(e <= tol) {
		t.Errorf("%s differs by %.3g, at most %.3g allowed:\n got %v\nwant %v", what, e, tol, got, want)
	}
}

func runtime(t testing.TB) *ort.Runtime { return orttest.Open(t) }
