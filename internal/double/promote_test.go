package double_test

import (
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// Sizes are what single precision makes of them, where 10·0.7 is 7 and not a
// little less, and numbers that sizes go into are double.
func TestSizes(t *testing.T) {
	rt := orttest.Open(t)
	x := make([]float64, 10)
	scale := func(b *onnx.Builder, x string) (scaled, factor string) {
		n := b.Node("Cast", []string{b.Node("Shape", []string{x})}, onnx.Attr("to", pb.TensorProto_FLOAT))
		factor = b.Const(float32(.7))
		return b.Node("Mul", []string{n, factor}), factor
	}
	whole := func(b *onnx.Builder, v string) string {
		return b.Node("Cast", []string{b.Node("Floor", []string{v})}, onnx.Attr("to", pb.TensorProto_INT64))
	}
	ones := func(b *onnx.Builder, shape string) string {
		return b.Node("Expand", []string{b.Const(float32(1)), shape})
	}
	for name, k := range map[string]struct {
		build func(b *onnx.Builder, x string) string
		want  []float64
	}{
		"a size": {func(b *onnx.Builder, x string) string {
			v, _ := scale(b, x)
			return ones(b, whole(b, v))
		}, slices.Repeat([]float64{1}, 7)},
		"a comparison": {func(b *onnx.Builder, x string) string {
			v, _ := scale(b, x)
			return b.Node("Where", []string{b.Node("Equal", []string{v, b.Const(float32(7))}), b.Const([]float32{1}), b.Const([]float32{2})})
		}, []float64{1}},
		"a constant that is a value too": {func(b *onnx.Builder, x string) string {
			v, factor := scale(b, x)
			return b.Node("Mul", []string{ones(b, whole(b, v)), factor})
		}, slices.Repeat([]float64{float64(float32(.7))}, 7)},
		"a value": {func(b *onnx.Builder, x string) string {
			v, _ := scale(b, x)
			return v
		}, []float64{10 * float64(float32(.7))}},
		"a value and a size": {func(b *onnx.Builder, x string) string {
			n := b.Node("Cast", []string{b.Node("Shape", []string{x})}, onnx.Attr("to", pb.TensorProto_FLOAT))
			third := b.Node("Div", []string{n, b.Const(float32(3))})
			return b.Node("Mul", []string{ones(b, whole(b, b.Node("Sqrt", []string{n}))), third})
		}, []float64{10. / 3, 10. / 3, 10. / 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(t, rt, x, k.build); !slices.Equal(got, k.want) {
				t.Errorf("%v, want %v", got, k.want)
			}
		})
	}
}
