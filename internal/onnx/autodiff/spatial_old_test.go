package autodiff

import (
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestOldResize compares gradients of the Upsample and Resize of old operator sets with
// central differences. The tested function Σ y² is quadratic in x, so central differences
// are exact.
func TestOldResize(t *testing.T) {
	rt := orttest.Open(t)
	scales := []float32{1, 1, 2, 1.5}
	smaller := []float32{1, 1, 0.4, 0.5}
	upsample7 := func(scales []float32, mode string) func(*onnx.Builder, string) string {
		return func(b *onnx.Builder, x string) string {
			return b.Node("Upsample", []string{x}, onnx.Attr("mode", mode), onnx.Attr("scales", scales))
		}
	}
	byInput := func(op string, scales []float32, mode string) func(*onnx.Builder, string) string {
		return func(b *onnx.Builder, x string) string {
			return b.Node(op, []string{x, b.Const(scales)}, onnx.Attr("mode", mode))
		}
	}
	resize11 := func(mode, coordinates string) func(*onnx.Builder, string) string {
		return func(b *onnx.Builder, x string) string {
			none := b.Const([]float32{})
			return b.Node("Resize", []string{x, none, none, b.Const(ints(1, 2, 7, 4))},
				onnx.Attr("mode", mode), onnx.Attr("coordinate_transformation_mode", coordinates))
		}
	}
	for _, c := range []struct {
		name  string
		opset int64
		build func(*onnx.Builder, string) string
	}{
		{"Upsample nearest", 7, upsample7(scales, "nearest")},
		{"Upsample nearest whole", 7, upsample7([]float32{1, 1, 2, 3}, "nearest")},
		{"Upsample linear", 7, upsample7(scales, "linear")},
		{"Upsample nearest", 9, byInput("Upsample", scales, "nearest")},
		{"Upsample linear", 9, byInput("Upsample", scales, "linear")},
		{"Resize nearest", 10, byInput("Resize", scales, "nearest")},
		{"Resize linear", 10, byInput("Resize", scales, "linear")},
		{"Resize linear smaller", 10, byInput("Resize", smaller, "linear")},
		{"Resize nearest", 11, resize11("nearest", "half_pixel")},
		{"Resize linear", 11, resize11("linear", "align_corners")},
		{"Resize nearest", 12, resize11("nearest", "asymmetric")},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.name, c.opset), func(t *testing.T) {
			shape := ints(1, 2, 5, 6)
			b := onnx.NewBuilder("case", c.opset)
			x := b.Input("x", pb.TensorProto_FLOAT, 1, 2, 5, 6)
			w := b.Input("w", pb.TensorProto_FLOAT, 1)
			wave := b.Node("Mul", []string{c.build(b, x), w})
			values := make([]float32, size(shape))
			one, _ := ort.NewTensor(ints(1), []float32{1})
			// Compare the gradient of Σ y² with respect to x with central differences.
			y := b.Node("Mul", []string{wave, wave})
			run := func() float64 {
				in, _ := ort.NewTensor(shape, values)
				total := 0.0
				f := onnx.NewBuilder("case", c.opset)
				fx := f.Input("x", pb.TensorProto_FLOAT, 1, 2, 5, 6)
				for _, v := range runModel(t, rt, modelWithOutputs(t, f, []string{c.build(f, fx)}), []*ort.Tensor{in})[0].Float32s() {
					total += float64(v) * float64(v)
				}
				return total
			}
			for i := range values {
				values[i] = float32(i%7) - 3
			}
			in, _ := ort.NewTensor(shape, append([]float32(nil), values...))
			b = upgraded(t, b)
			g, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
			if err != nil {
				t.Fatal(err)
			}
			got := runModel(t, rt, modelWithOutputs(t, b, g), []*ort.Tensor{in, one})[0].Float32s()
			for i := 0; i < len(values); i += 4 {
				at := values[i]
				values[i] = at + 1
				above := run()
				values[i] = at - 1
				below := run()
				values[i] = at
				if want := (above - below) / 2; !(float64(got[i])-want < 1e-3 && want-float64(got[i]) < 1e-3) {
					t.Errorf("derivative by x[%d] is %v, central difference %v", i, got[i], want)
				}
			}
		})
	}
}
