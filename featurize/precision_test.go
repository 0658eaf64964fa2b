package featurize_test

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// TestDigitsGradientsDouble compares with PyTorch's autograd in double
// precision to that precision, but for ε of the batch norms, which the file has
// in single precision.
func TestDigitsGradientsDouble(t *testing.T) {
	rt := runtime(t)
	reference := filepath.Join("testdata", "digits_gradients")
	shape, x := entry(t, reference, "x")
	z, err := npy.OpenNPZ(reference + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	for name, tol := range map[string]float64{"resnet": 1e-8, "vgg": 1e-12} {
		m := open(t, rt, filepath.Join("..", "testmodels", "digits_"+name+".onnx"), featurize.Options{Batch: 3})
		for key, of := range map[string]ood.Scalar{
			"top": {}, "warm": {Temperature: 1000}, "sum": {Kind: ood.Sum}, "two": {Kind: ood.TopTwo},
		} {
			e, err := z.Entry(name + "_" + key)
			if err != nil {
				t.Fatal(err)
			}
			a, err := e.Read()
			if err != nil {
				t.Fatal(err)
			}
			want, err := npy.Float64s(a)
			if err != nil {
				t.Fatal(err)
			}
			var got []float64
			for b, err := range m.Gradients(t.Context(), featurize.Slice(shape, x), featurize.GradientOptions{Of: of, Precision: featurize.Float64}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b.Double...)
				for i, v := range b.Gradient {
					if v != float32(b.Double[i]) {
						t.Fatalf("element %d is %v and %v", i, v, b.Double[i])
					}
				}
			}
			var off, norm float64
			for i, w := range want {
				off, norm = math.Hypot(off, got[i]-w), math.Hypot(norm, w)
			}
			if !(off <= tol*norm) {
				t.Errorf("%s, %s: error %.1e, at most %.0e allowed", name, key, off/norm, tol)
			}
		}
	}
}

// A unit that single precision takes for off is on in double precision.
func TestPrecisionKink(t *testing.T) {
	rt := runtime(t)
	for _, opset := range []int64{9, 17} {
		m := open(t, rt, tiny(t, opset, func(b *onnx.Builder, x string) {
			large := b.Const(float32(1 << 26))
			small := b.Node("Sub", []string{b.Node("Add", []string{x, large}), large})
			out(b, gemm(b, phiOf(b, small)))
		}, "n", 3), featurize.Options{})
		x := []float32{.5, .25, 1, 1, .5, .25}
		for precision, zero := range map[featurize.Precision]bool{featurize.Float32: true, featurize.Float64: false} {
			got := gradients(t, m, []int{2, 3}, x, featurize.GradientOptions{Precision: precision})
			if (relative(got.Gradient, make([]float32, 6)) == 0 || got.Gradient[0] == 0) != zero {
				t.Errorf("operator set %d, precision %d: the gradient is %v", opset, precision, got.Gradient)
			}
			if !zero {
				near(t, "the gradient", got.Gradient, gradientOf(x, ood.Scalar{}), 1e-6)
				near(t, "φ", got.Features.Data, trunkOf(x), 1e-6)
			}
		}
	}
}

// Upstream gradients, inner tensors and weights beside the model are those of
// single precision.
func TestPrecisionOptions(t *testing.T) {
	rt := runtime(t)
	for _, path := range []string{
		filepath.Join("..", "testmodels", "odd", "external.onnx"),
		filepath.Join("..", "testmodels", "odd", "float16.onnx"),
		filepath.Join("..", "testmodels", "odd", "ir3_opset7.onnx"),
		filepath.Join("..", "testmodels", "odd", "double_regressor.onnx"),
		save(t, many(t)),
		save(t, older(t, many(t), 11)),
	} {
		m := open(t, rt, path, featurize.Options{})
		shape := append([]int{5}, m.InputShape()...)
		size := 1
		for _, d := range shape {
			size *= d
		}
		c := m.Info().OutputsWidth
		for _, o := range []featurize.GradientOptions{
			{Of: ood.Scalar{Kind: ood.Sum}}, {Of: ood.Scalar{Kind: ood.Logit}}, {Tensor: m.Info().Feature.Tensor, Of: ood.Scalar{Kind: ood.Logit}},
			{Upstream: blas32.General{Rows: 5, Cols: c, Stride: c, Data: noise(5 * c)}, Batch: 2},
		} {
			want := gradients(t, m, shape, noise(size), o)
			o.Precision = featurize.Float64
			got := gradients(t, m, shape, noise(size), o)
			tol := 1e-5
			if strings.Contains(path, "float16") {
				tol = 2e-2
			}
			if e := relative(got.Gradient, want.Gradient); !(e <= tol) {
				t.Errorf("%s, %+v: differs by %.2g", path, o, e)
			}
		}
	}
}

// What has no equivalent in double precision is an error that names it, and
// single precision works all the same.
func TestPrecisionRefused(t *testing.T) {
	rt := runtime(t)
	quantised := func(b *onnx.Builder, x string) {
		s, zero := b.Const(float32(.125)), bytesOf(b, pb.TensorProto_UINT8, []byte{128})
		q := b.Append(onnx.Node{Op: "QuantizeLinear", Name: "culprit", Inputs: []string{phiOf(b, x), s, zero}})[0]
		out(b, gemm(b, b.Node("DequantizeLinear", []string{q, s, zero})))
	}
	convolution := func(b *onnx.Builder, x string) {
		image := b.Node("Reshape", []string{x, b.Const([]int64{-1, 1, 3})})
		y := b.Append(onnx.Node{Op: "Conv", Name: "culprit", Inputs: []string{image, b.Initializer("k", []float32{1, 2}, 1, 1, 2)},
			Attrs: []*pb.AttributeProto{onnx.Attr("pads", []int64{1, 1})}})[0]
		out(b, gemm(b, b.Node("Reshape", []string{y, b.Const([]int64{-1, 4})})))
	}
	for want, path := range map[string]string{
		"QuantizeLinear": tiny(t, 13, quantised, "n", 3),
		"Conv":           tiny(t, 10, convolution, "n", 3),
	} {
		m := open(t, rt, path, featurize.Options{})
		o := featurize.GradientOptions{Of: ood.Scalar{Kind: ood.Sum}}
		gradients(t, m, []int{2, 3}, noise(6), o)
		o.Precision = featurize.Float64
		err := gradientError(m, []int{2, 3}, noise(6), o)
		if !errors.Is(err, featurize.ErrPrecision) {
			t.Errorf("%s: error %v, want ErrPrecision", want, err)
			continue
		}
		for _, word := range []string{want + " (node", "culprit", "float32"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("error %q does not say %q", err, word)
			}
		}
	}
	m := open(t, rt, tiny(t, 13, func(b *onnx.Builder, x string) { out(b, gemm(b, phiOf(b, x))) }, "n", 3), featurize.Options{})
	if err := gradientError(m, []int{2, 3}, noise(6), featurize.GradientOptions{Precision: 7}); err == nil || !strings.Contains(err.Error(), "precision 7") {
		t.Errorf("error %v, want one about the precision", err)
	}
}
