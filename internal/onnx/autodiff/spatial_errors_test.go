package autodiff

import (
	"errors"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func TestSpatialErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(b *onnx.Builder, x string) string
		want  string
	}{
		{"Resize crops", func(b *onnx.Builder, x string) string {
			return b.Node("Resize", []string{x, b.Const([]float32{0, 0, 0, 0, 1, 1, 1, 1}), b.Const([]float32{1, 1, 2, 2})},
				onnx.Attr("coordinate_transformation_mode", "tf_crop_and_resize"))
		}, "crops"},
		{"Resize keeps the aspect ratio", func(b *onnx.Builder, x string) string {
			return b.Node("Resize", []string{x, "", "", b.Const(ints(1, 2, 7, 7))}, onnx.Attr("keep_aspect_ratio_policy", "not_larger"))
		}, "aspect ratio"},
		{"ConvTranspose to a shape from sizes unknown", func(b *onnx.Builder, x string) string {
			return b.Node("ConvTranspose", []string{x, kernel(2, 3, 3, 3)(b)}, onnx.Attr("output_shape", ints(7, 7)))
		}, "sizes that are not known"},
		{"Conv SAME by a kernel unknown", func(b *onnx.Builder, x string) string {
			w := b.Input("w", pb.TensorProto_FLOAT, 3, 2, -1, -1)
			return b.Node("Conv", []string{x, w}, onnx.Attr("auto_pad", "SAME_UPPER"))
		}, "kernel of unknown size"},
		{"AveragePool of a window that no input fills", func(b *onnx.Builder, x string) string {
			return b.Node("AveragePool", []string{x}, onnx.Attr("kernel_shape", ints(1<<31, 1<<31)), onnx.Attr("strides", ints(2, 2)), onnx.Attr("auto_pad", "SAME_UPPER"))
		}, "too large"},
		{"LRN of more channels than there are", func(b *onnx.Builder, x string) string {
			return b.Node("LRN", []string{x}, onnx.Attr("size", 1<<40+1))
		}, "too large"},
	} {
		b := onnx.NewBuilder("g", 18)
		x := b.Input("x", pb.TensorProto_FLOAT, "n", 2, "h", "w")
		y := test.build(b, x)
		_, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one that says %q", test.name, err, test.want)
		}
	}
}
