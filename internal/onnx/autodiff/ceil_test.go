package autodiff

import (
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TestCeilInPadding holds that gradients run of pools whose last window would
// start in the padding. ONNX before operator set 22 infers a window that no
// runtime makes.
func TestCeilInPadding(t *testing.T) {
	rt := orttest.Open(t)
	shape := ints(1, 1, 1, 9)
	build := func(op string, opset int64, include bool, dims ...any) (b *onnx.Builder, x, y string) {
		b = onnx.NewBuilder("case", opset)
		x = b.Input("x", pb.TensorProto_FLOAT, dims...)
		attrs := window("kernel_shape", ints(1, 2), "strides", ints(1, 3), "pads", ints(0, 0, 0, 1), "ceil_mode", 1)
		if op == "AveragePool" && include {
			attrs = append(attrs, onnx.Attr("count_include_pad", 1))
		}
		y = b.Node(op, []string{x}, attrs...)
		return b, x, b.Node("Relu", []string{b.Node("Mul", []string{y, y})})
	}
	for _, op := range []string{"AveragePool", "MaxPool"} {
		for _, opset := range ints(11, 13, 17, 19, 22) {
			for _, include := range []bool{false, true} {
				for _, dims := range [][]any{{1, 1, 1, 9}, {"n", 1, 1, 9}, {"n", "c", "h", "w"}, {-1, -1, -1, -1}} {
					t.Run(fmt.Sprint(op, opset, include, dims), func(t *testing.T) {
						v := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}
						want := []float32{1.5, 1.5, 0, 4.5, 4.5, 0, 7.5, 7.5, 0}
						if op == "MaxPool" {
							want = []float32{0, 4, 0, 0, 10, 0, 0, 16, 0}
						}
						b, x, y := build(op, opset, include, dims...)
						b = raised(t, b)
						g, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
						if err != nil {
							t.Fatal(err)
						}
						x0, _ := ort.NewTensor(shape, v)
						for i, g := range runModel(t, rt, outputs(t, b, g), []*ort.Tensor{x0})[0].Float32s() {
							if g != want[i] {
								t.Errorf("gradient[%d] is %v, want %v", i, g, want[i])
							}
						}
					})
				}
			}
		}
	}
}
