package featurize_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// twoInputs builds a model that adds a second input z to x (n×3). build makes z fit x.
func twoInputs(t testing.TB, elem pb.TensorProto_DataType, build func(b *onnx.Builder, z string) string, dims ...any) string {
	return tiny(t, 13, func(b *onnx.Builder, x string) {
		z := build(b, b.Input("z", elem, dims...))
		addOutput(b, gemm(b, phiOf(b, b.Node("Add", []string{x, z}))))
	}, "n", 3)
}

func rowsOf(tensors ...ood.Tensor) ood.InputBlock { return ood.InputBlock{Tensors: tensors} }

func floats(name string, data []float32, shape ...int) ood.Tensor {
	return ood.Tensor{Name: name, Shape: shape, Data: data}
}

// allOf runs the model on one block of rows.
func allOf(t testing.TB, m *featurize.Model, b ood.InputBlock) ood.Batch {
	t.Helper()
	got, err := m.All(context.Background(), featurize.Single(b), b.Len(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestInputTypes checks that a second input receives the values of the rows, for every
// element type.
func TestInputTypes(t *testing.T) {
	rt := runtime(t)
	x, z := noise(15), []float32{0, 1, 1, 0, 1}
	want := slices.Clone(x)
	for i := range want {
		want[i] += z[i/3]
	}
	for _, elem := range []pb.TensorProto_DataType{
		pb.TensorProto_FLOAT, pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16, pb.TensorProto_BOOL,
		pb.TensorProto_UINT8, pb.TensorProto_UINT16, pb.TensorProto_UINT32, pb.TensorProto_UINT64,
		pb.TensorProto_INT8, pb.TensorProto_INT16, pb.TensorProto_INT32, pb.TensorProto_INT64,
	} {
		m := open(t, rt, twoInputs(t, elem, func(b *onnx.Builder, z string) string {
			return b.Node("Unsqueeze", []string{b.Node("Cast", []string{z}, onnx.Attr("to", float)), b.Const([]int64{1})})
		}, "n"), featurize.Options{Batch: 2})
		// The inputs may come in any order, and a column may have one axis or two.
		got := allOf(t, m, rowsOf(floats("z", z, 5, 1), floats("x", x, 5, 3)))
		checkNear(t, elem.String(), got.Features.Data, trunkOf(want), 1e-6)
		if in := m.Info().Inputs; len(in) != 2 || in[1].Name != "z" || in[1].Optional || m.Base(attach.Classification).Inputs[1].DType != in[1].DType {
			t.Errorf("%s: inputs %+v", elem, in)
		}
	}
	m := open(t, rt, twoInputs(t, pb.TensorProto_STRING, func(b *onnx.Builder, z string) string {
		b.Import("ai.onnx.ml", 2)
		return b.Append(onnx.Node{Op: "LabelEncoder", Domain: "ai.onnx.ml", Inputs: []string{z}, Attrs: []*pb.AttributeProto{
			onnx.Attr("keys_strings", []string{"no", "yes"}), onnx.Attr("values_floats", []float32{0, 1})}})[0]
	}, "n", 1), featurize.Options{Batch: 2})
	texts := ood.Tensor{Name: "z", Shape: []int{5}, Strings: []string{"no", "yes", "yes", "no", "yes"}}
	checkNear(t, "strings", allOf(t, m, rowsOf(floats("x", x, 5, 3), texts)).Features.Data, trunkOf(want), 1e-6)
}

// TestInputsRefused checks the errors for rows that do not fit the model's inputs.
func TestInputsRefused(t *testing.T) {
	rt := runtime(t)
	m := open(t, rt, twoInputs(t, pb.TensorProto_INT64, func(b *onnx.Builder, z string) string {
		return b.Node("Cast", []string{z}, onnx.Attr("to", float))
	}, "n", 1), featurize.Options{})
	x, z := floats("x", noise(6), 2, 3), floats("z", []float32{1, 2}, 2, 1)
	for want, b := range map[string]ood.InputBlock{
		`the rows lack the model's input "z" (int64 n×1) ("x")`:                                       rowsOf(x),
		`the rows lack the model's input "x" (float32 n×3)`:                                           rowsOf(floats("", noise(6), 2, 3)),
		`the rows contain "y", which is not an input of the model; its inputs are "x", "z"`:           rowsOf(x, z, floats("y", []float32{1, 2}, 2)),
		`the rows contain an input twice; the model's inputs are "x", "z"`:                            rowsOf(x, z, x),
		`the model's input "x" takes n×3 of float32, the rows given are n of float32`:                 rowsOf(floats("x", noise(2), 2), z),
		`the model's input "z" takes n×1 of int64, the rows given are n×2 of float32`:                 rowsOf(x, floats("z", noise(4), 2, 2)),
		`the model's input "z" takes n×1 of int64, the rows given are n×1 of texts`:                   rowsOf(x, ood.Tensor{Name: "z", Shape: []int{2, 1}, Strings: []string{"1", "2"}}),
		`row 1 (counted from 0) of the input "z" holds 0.5; the model takes int64, which are whole`:   rowsOf(x, floats("z", []float32{1, .5}, 2, 1)),
		`row 0 (counted from 0) of the input "z" holds 3.3554432e+07; the model takes int64, which a`: rowsOf(x, floats("z", []float32{1 << 25, 1}, 2, 1)),
	} {
		_, err := m.All(context.Background(), featurize.Single(b), -1, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOptionalInput checks that inputs keep their default values unless rows contain them.
func TestOptionalInput(t *testing.T) {
	build := func(dims ...any) string {
		return tiny(t, 13, func(b *onnx.Builder, x string) {
			z := b.Initializer("z", []float32{1, 2, 3}, 1, 3)
			b.Graph().Input = append(b.Graph().Input, onnx.ValueInfo(z, float, dims...))
			addOutput(b, gemm(b, phiOf(b, b.Node("Add", []string{x, z}))))
		}, "n", 3)
	}
	m := open(t, runtime(t), build("n", 3), featurize.Options{})
	if in := m.Info().Inputs; len(in) != 2 || !in[1].Optional || !m.Info().Exact {
		t.Errorf("inputs %+v", in)
	}
	x, z := noise(6), noise(6)
	plus := func(z ...float32) []float32 {
		sum := slices.Clone(x)
		for i := range sum {
			sum[i] += z[i%len(z)]
		}
		return sum
	}
	checkNear(t, "the default", runAll(t, m, []int{2, 3}, x).Features.Data, trunkOf(plus(1, 2, 3)), 1e-6)
	given := rowsOf(floats("x", x, 2, 3), floats("z", z, 2, 3))
	checkNear(t, "of the rows", allOf(t, m, given).Features.Data, trunkOf(plus(z...)), 1e-6)
	both, err := m.All(context.Background(), func(yield func(ood.InputBlock, error) bool) {
		_ = yield(given, nil) && yield(ood.BlockOf([]int{2, 3}, x), nil)
	}, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkNear(t, "one after the other", both.Features.Data, trunkOf(append(plus(z...), plus(1, 2, 3)...)), 1e-6)
	// Some exporters list weights as inputs. Rows cannot replace these, because their first
	// axis is fixed.
	if in := open(t, runtime(t), build(1, 3), featurize.Options{}).Info().Inputs; len(in) != 1 {
		t.Errorf("inputs %+v", in)
	}
}

// TestInputsGradient checks that gradients are computed with respect to the only input of
// real numbers. The gradient must have the name that the rows use for this input.
func TestInputsGradient(t *testing.T) {
	b := onnx.NewBuilder("tiny", 13)
	x, z := b.Input("x:0", float, "n", 3), b.Input("z", pb.TensorProto_INT32, "n", 1)
	addOutput(b, gemm(b, phiOf(b, b.Node("Mul", []string{x, b.Node("Cast", []string{z}, onnx.Attr("to", float))}))))
	model, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, runtime(t), save(t, model), featurize.Options{Batch: 2})
	rows, factors := noise(9), []float32{1, 2, 3}
	block := rowsOf(floats("z", factors, 3, 1), floats("x", rows, 3, 3))
	got, g, err := m.Network().Gradient(context.Background(), block, ood.Scalar{Logit: true, Index: 1})
	if err != nil {
		t.Fatal(err)
	}
	if block.Find(g.Name) == nil || !slices.Equal(g.Shape, []int{3, 3}) {
		t.Fatalf("gradient %q of shape %v", g.Name, g.Shape)
	}
	var want []float32
	for i, factor := range factors {
		for k := range 3 {
			var d float32
			for j, v := range got.Features.Data[i*h : (i+1)*h] {
				if v > 0 {
					d += headW[h+j] * trunk[k*h+j] * factor
				}
			}
			want = append(want, d)
		}
	}
	checkNear(t, "the gradient", g.Data, want, 1e-5)
}

// TestInputsAgainstNumPy compares a model of an image with columns, and a model of tokens,
// with results of NumPy.
func TestInputsAgainstNumPy(t *testing.T) {
	rt := runtime(t)
	for name, inputs := range map[string][]string{"two_inputs": {"image", "columns"}, "tokens": {"input_ids", "attention_mask"}} {
		path := "../testmodels/odd/" + name + ".onnx"
		var b ood.InputBlock
		for _, input := range inputs {
			shape, data := entry(t, path, input)
			b.Tensors = append(b.Tensors, floats(input, data, shape...))
		}
		got := allOf(t, open(t, rt, path, featurize.Options{Batch: 3}), b)
		_, phi := entry(t, path, "features")
		_, logits := entry(t, path, "logits")
		checkNear(t, name+": φ", got.Features.Data, phi, 1e-5)
		checkNear(t, name+": the logits", got.Logits.Data, logits, 1e-5)
	}
}
