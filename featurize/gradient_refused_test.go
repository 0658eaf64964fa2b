package featurize_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

func gradientError(m *featurize.Model, shape []int, x []float32, o featurize.GradientOptions) error {
	for _, err := range m.Gradients(context.Background(), featurize.Single(ood.BlockOf(shape, x)), o) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Where the number of outputs shows in a run alone, scalars that the network
// does not have are errors all the same, and not gradients of zeros.
func TestGradientUnknownWidth(t *testing.T) {
	rt := runtime(t)
	for _, opset := range []int64{9, 17} {
		unknown := func(width int) *featurize.Model {
			m := open(t, rt, tiny(t, opset, func(b *onnx.Builder, x string) {
				// No length of sequence that is tried on it makes five tokens.
				y := b.Node("Tanh", []string{b.Node("Reshape", []string{x, b.Const([]int64{0, 15})})})
				if width == 1 {
					y = b.Node("ReduceMean", []string{y}, onnx.Attr("axes", []int64{1}), onnx.Attr("keepdims", 1))
				}
				out(b, y, "n", width)
			}, "n", "tokens", 3), featurize.Options{Feature: "x"})
			if w := m.Info().OutputsWidth; w != 0 {
				t.Fatalf("the model is known to have %d outputs", w)
			}
			return m
		}
		x := noise(2 * 5 * 3)
		for _, k := range []struct {
			width int
			o     featurize.GradientOptions
			want  string
		}{
			{15, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 15}}, "there is no output 15, the network has 15"},
			{15, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 14}}, ""},
			{15, featurize.GradientOptions{}, ""},
			{1, featurize.GradientOptions{}, "the network has one output"},
			{1, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 1}}, "there is no output 1"},
			{1, featurize.GradientOptions{Of: ood.Scalar{Logit: true}}, ""},
		} {
			err := gradientError(unknown(k.width), []int{2, 5, 3}, x, k.o)
			var scalar *autodiff.TensorError
			if k.want == "" && err != nil || k.want != "" && (!errors.As(err, &scalar) || scalar.Tensor != "" || !strings.Contains(err.Error(), k.want)) {
				t.Errorf("opset %d, %d outputs, %+v: error %v, want %q", opset, k.width, k.o.Of, err, k.want)
			}
		}
	}
}

// A tensor that is the same for every row has no gradient for each, even where
// it has as many rows as there are inputs.
func TestGradientConstant(t *testing.T) {
	rt := runtime(t)
	for _, opset := range []int64{9, 17} {
		m := open(t, rt, tiny(t, opset, func(b *onnx.Builder, x string) {
			scale := b.Initializer("scale", []float32{1, 2, 3, 4, 5, 6}, 2, 3)
			table := onnx.Attr("value", onnx.Tensor([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
			b.Append(onnx.Node{Op: "Constant", Outputs: []string{"constant"}, Attrs: []*pb.AttributeProto{table}})
			b.Append(onnx.Node{Op: "Add", Inputs: []string{scale, "constant"}, Outputs: []string{"sum"}})
			rows := b.Node("Mul", []string{x, "sum"})
			out(b, gemm(b, phiOf(b, rows)), 2, c)
		}, 2, 3), featurize.Options{})
		for tensor, want := range map[string]string{
			"constant": "does not depend on the model's input",
			"scale":    "does not depend on the model's input",
			"sum":      "does not depend on the model's input",
			"nothing":  "not made from a tensor of that name",
		} {
			err := gradientError(m, []int{2, 3}, noise(6), featurize.GradientOptions{Tensor: tensor})
			var refused *autodiff.TensorError
			if !errors.As(err, &refused) || refused.Tensor != tensor || !strings.Contains(err.Error(), want) {
				t.Errorf("opset %d, tensor %q: error %v, want %q", opset, tensor, err, want)
			}
		}
		for _, tensor := range []string{"x", m.Info().Feature.Tensor} {
			if err := gradientError(m, []int{2, 3}, noise(6), featurize.GradientOptions{Tensor: tensor}); err != nil {
				t.Errorf("opset %d, tensor %q: %v", opset, tensor, err)
			}
		}
	}
}
