package autodiff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// shapeCases compute shapes in the same ways as exporters of models. x is n×3×4 for n rows.
var shapeCases = []struct {
	name  string
	build func(b *onnx.Builder, x string) string
	want  string
}{
	{"rows by name", func(b *onnx.Builder, x string) string {
		n := b.Node("Unsqueeze", []string{axisSize(b, x, 0), b.Const(ints(0))})
		return b.Node("Reshape", []string{x, b.Node("Concat", []string{n, b.Const(ints(-1))}, onnx.Attr("axis", 0))})
	}, "n 12"},
	{"rows found by themselves", func(b *onnx.Builder, x string) string {
		return b.Node("Reshape", []string{x, b.Const(ints(-1, 12))})
	}, "n 12"},
	{"heads and back", func(b *onnx.Builder, x string) string {
		many := b.Node("Mul", []string{b.Node("Slice", []string{b.Node("Shape", []string{x}), b.Const(ints(0)), b.Const(ints(1))}), b.Const(ints(3))})
		y := b.Node("Reshape", []string{x, b.Node("Concat", []string{many, b.Const(ints(4))}, onnx.Attr("axis", 0))})
		few := b.Node("Div", []string{axisSize(b, y, 0), b.Const(int64(3))})
		few = b.Node("Reshape", []string{few, b.Const(ints(1))})
		return b.Node("Reshape", []string{y, b.Node("Concat", []string{few, b.Const(ints(-1, 2))}, onnx.Attr("axis", 0))})
	}, "n 6 2"},
	{"heads of unknown number", func(b *onnx.Builder, x string) string {
		return b.Node("Reshape", []string{x, b.Const(ints(-1, 4))})
	}, "Mul(n, 3) 4"},
	{"expand where not −1", func(b *onnx.Builder, x string) string {
		n := b.Node("Unsqueeze", []string{axisSize(b, x, 0), b.Const(ints(0))})
		shape := b.Node("Concat", []string{n, b.Const(ints(-1, -1))}, onnx.Attr("axis", 0))
		ones := b.Node("ConstantOfShape", []string{b.Const(ints(3))}, onnx.Attr("value", onnx.Tensor([]int64{1})))
		open := b.Node("Equal", []string{shape, b.Node("Mul", []string{ones, b.Const(int64(-1))})})
		return b.Node("Expand", []string{b.Const(make([]float32, 5), 1, 5, 1), b.Node("Where", []string{open, ones, shape})})
	}, "n 5 1"},
	{"pads from the last axis on", func(b *onnx.Builder, x string) string {
		// PyTorch lists paddings (before, after) from the last axis on. Here they are 1, 2
		// for the last axis and 0, 3 for the one before.
		zeros := b.Node("ConstantOfShape", []string{b.Const(ints(2))}, onnx.Attr("value", onnx.Tensor([]int64{0})))
		pads := b.Node("Concat", []string{b.Const(ints(1, 2, 0, 3)), zeros}, onnx.Attr("axis", 0))
		pads = b.Node("Reshape", []string{pads, b.Const(ints(-1, 2))})
		pads = b.Node("Slice", []string{pads, b.Const(ints(-1)), b.Const(ints(-1 << 60)), b.Const(ints(0)), b.Const(ints(-1))})
		pads = b.Node("Transpose", []string{pads}, onnx.Attr("perm", ints(1, 0)))
		return b.Node("Pad", []string{x, b.Node("Cast", []string{b.Node("Reshape", []string{pads, b.Const(ints(-1))})}, onnx.Attr("to", pb.TensorProto_INT64))})
	}, "n 6 7"},
	{"one element", func(b *onnx.Builder, x string) string {
		return b.Node("Gather", []string{x, b.Const(int64(0))}, onnx.Attr("axis", 1))
	}, "n 4"},
	{"half", func(b *onnx.Builder, x string) string {
		half := b.Node("Unsqueeze", []string{b.Node("Div", []string{axisSize(b, x, 2), b.Const(int64(2))}), b.Const(ints(0))})
		return b.Node("Slice", []string{x, half, b.Const(ints(1 << 40)), b.Const(ints(2))})
	}, "n 3 2"},
}

func axisSize(b *onnx.Builder, x string, axis int64) string {
	return b.Node("Gather", []string{b.Node("Shape", []string{x}), b.Const(axis)})
}

// TestShapes checks that the shapes which a graph computes are known before it runs, and
// that gradients need no shape arithmetic.
func TestShapes(t *testing.T) {
	for _, c := range shapeCases {
		b := onnx.NewBuilder("g", 17)
		x := b.Input("x", pb.TensorProto_FLOAT, "n", 3, 4)
		y := c.build(b, x)
		var got []string
		for _, d := range newTypes(b.Graph(), b.Index(), "").get(y).dims {
			if d.known() {
				got = append(got, fmt.Sprint(d.n))
			} else {
				got = append(got, d.symbol)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: shape %q, want %q", c.name, got, c.want)
		}
		before := len(b.Graph().Node)
		if _, err := Gradient(b, "", []Seed{{Output: b.Node("Mul", []string{y, y}), Upstream: y}}, []string{x}); err != nil {
			continue // y does not depend on the elements of x, so it has no gradient
		}
		for _, n := range b.Graph().Node[before:] {
			if n.GetOpType() == "Shape" || n.GetOpType() == "Size" {
				t.Errorf("%s: the gradient computes a shape of %q", c.name, n.Input)
			}
		}
	}
}
