package featurize_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// attributesOf lists, for some operators, the inputs from the second on. In older operator
// sets, these inputs are attributes.
var attributesOf = map[string][]string{
	"Clip": {"min", "max"}, "Dropout": {"ratio"}, "Pad": {"pads", "value"}, "ReduceSum": {"axes"}, "Slice": {"starts", "ends", "axes"},
	"Split": {"split"}, "Squeeze": {"axes"}, "Unsqueeze": {"axes"},
}

// toOldOpset converts a model from operator set 13 to operator set 11, 9 or 7. Only pooling
// and the operators in attributesOf are converted, because the tests use no other operators
// that changed. For operator set 7, the IR version is 3, so initializers are also inputs.
func toOldOpset(t *testing.T, m *pb.ModelProto, opset int64) *pb.ModelProto {
	t.Helper()
	m = proto.CloneOf(m)
	g := onnx.Extend(m).Index()
	m.OpsetImport = []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}}
	since := map[string]int64{"Clip": 11, "Pad": 11, "Slice": 10, "Dropout": 12}
	for _, n := range m.Graph.Node {
		if strings.HasSuffix(n.GetOpType(), "Pool") && opset < 10 {
			n.Attribute = slices.DeleteFunc(n.Attribute, func(a *pb.AttributeProto) bool { // these attributes have their default values
				return a.GetName() == "ceil_mode" || a.GetName() == "dilations"
			})
		}
		names, ok := attributesOf[n.GetOpType()]
		from := since[n.GetOpType()]
		if from == 0 {
			from = 13
		}
		if !ok || opset >= from || len(n.Input) < 2 {
			continue
		}
		for i, in := range n.Input[1:] {
			if in == "" || n.GetOpType() == "Dropout" && i == 1 { // training_mode is false
				continue
			}
			c, ok := g.Const(in)
			if !ok || i >= len(names) {
				t.Fatalf("input %d of %s is not constant", i+1, n.GetOpType())
			}
			if f, dims, err := onnx.Float32s(c, ""); c.GetDataType() == int32(float) && err == nil && len(dims) == 0 {
				n.Attribute = append(n.Attribute, onnx.Attr(names[i], f[0]))
				continue
			}
			v, _, err := onnx.Int64s(c, "")
			if err != nil {
				t.Fatal(err)
			}
			n.Attribute = append(n.Attribute, onnx.Attr(names[i], v))
		}
		n.Input = n.Input[:1]
	}
	m.IrVersion = proto.Int64(4)
	if opset == 7 {
		m.IrVersion = proto.Int64(3)
		for _, w := range m.Graph.Initializer {
			dims := make([]any, len(w.Dims))
			for i, d := range w.Dims {
				dims[i] = d
			}
			m.Graph.Input = append(m.Graph.Input, onnx.ValueInfo(w.GetName(), pb.TensorProto_DataType(w.GetDataType()), dims...))
		}
	}
	return m
}

// manyOps builds a model with most of the operators that changed after operator set 7.
func manyOps(t *testing.T) *pb.ModelProto {
	t.Helper()
	b := onnx.NewBuilder("many", 13)
	x := b.Input("x", float, "n", 3, 8, 8)
	ints := func(v ...int64) string { return b.Const(v) }
	kernel := func(out, in, size int64) string {
		w := noise(int(out * in * size * size))
		for i := range w {
			w[i] *= .4
		}
		return b.Initializer("w", w, out, in, size, size)
	}
	pool := []*pb.AttributeProto{onnx.Attr("kernel_shape", []int64{3, 3}), onnx.Attr("strides", []int64{2, 2}), onnx.Attr("pads", []int64{1, 1, 1, 1})}
	v := b.Node("Pad", []string{x, ints(0, 0, 1, 1, 0, 0, 1, 1), b.Const(float32(.25))})
	v = b.Node("Conv", []string{v, kernel(8, 3, 3)})
	v = b.Node("Clip", []string{v, b.Const(float32(-1)), b.Const(float32(1.5))})
	v = b.Node("MaxPool", []string{v}, pool...)
	v = b.Node("Dropout", []string{v, b.Const(float32(.3))})
	parts := b.NodeN(2, "Split", []string{v, ints(3, 5)}, onnx.Attr("axis", 1))
	v = b.Node("Concat", []string{parts[1], b.Node("Relu", []string{parts[0]})}, onnx.Attr("axis", 1))
	v = b.Node("AveragePool", []string{v}, append(pool, onnx.Attr("count_include_pad", 1))...)
	v = b.Node("Slice", []string{v, ints(0, -2), ints(2, 1<<30), ints(2, 3)})
	v = b.Node("Mul", []string{v, b.Node("Sigmoid", []string{b.Node("Conv", []string{v, kernel(8, 8, 1)})})})
	sum := b.Node("ReduceSum", []string{v, ints(2, 3)}, onnx.Attr("keepdims", 0))
	max := b.Node("Squeeze", []string{b.Node("GlobalMaxPool", []string{v}), ints(2, 3)})
	v = b.Node("Add", []string{sum, b.Node("Squeeze", []string{b.Node("Unsqueeze", []string{max, ints(1)}), ints(1)})})
	v = b.Node("Tanh", []string{v})
	w := noise(4 * 8)
	v = b.Node("Gemm", []string{v, b.Initializer("head", w, 8, 4), b.Const([]float32{0, 1, 2, 3})})
	b.Output(b.Node("Softmax", []string{v}, onnx.Attr("axis", 1)), float, "n", 4)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOldOpsets checks that models of operator sets 11, 9 and 7 have the same logits as
// models of operator set 13, and the same gradients with respect to the input and to φ.
func TestOldOpsets(t *testing.T) {
	rt := runtime(t)
	models := map[string]*pb.ModelProto{"many": manyOps(t)}
	for _, name := range []string{"digits_resnet", "digits_vgg"} {
		g, err := onnx.Load(filepath.Join("..", "testmodels", name+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		models[name] = g.Model
	}
	if dir := os.Getenv("ATTACH_TORCHVISION"); dir != "" {
		for _, name := range []string{"resnet18", "densenet121", "mobilenet_v2"} {
			g, err := onnx.Load(filepath.Join(dir, name+".onnx"))
			if err != nil {
				t.Fatal(err)
			}
			models[name] = g.Model
		}
	}
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			recent := open(t, rt, save(t, model), featurize.Options{})
			shape := append([]int{5}, recent.InputShape()...)
			if shape[len(shape)-1] > 100 {
				shape[0] = 1
			}
			size := 1
			for _, d := range shape {
				size *= d
			}
			x := noise(size)
			for _, o := range []featurize.GradientOptions{
				{}, {Of: ood.Scalar{TopTwo: true}}, {Tensor: recent.Info().Feature.Tensor, Of: ood.Scalar{Logit: true, Index: 1}},
			} {
				want := gradients(t, recent, shape, x, o)
				for _, opset := range []int64{11, 9, 7} {
					old := open(t, rt, save(t, toOldOpset(t, model, opset)), featurize.Options{})
					if old.Info().Opset != opset {
						t.Fatalf("operator set %d, want %d", old.Info().Opset, opset)
					}
					got := gradients(t, old, shape, x, o)
					if !slices.Equal(got.Gradient.Shape, want.Gradient.Shape) {
						t.Errorf("operator set %d: shape %v, want %v", opset, got.Gradient.Shape, want.Gradient.Shape)
					}
					tol := 1e-5
					if size > 1e5 {
						tol = 1e-2 // larger because of kinks of ReLU; see TestTorchvisionGradients
					}
					if e := relative(got.Gradient.Data, want.Gradient.Data); !(e <= tol) {
						t.Errorf("operator set %d, %+v: differs by %.2g", opset, o.Of, e)
					} else if size > 1e5 {
						t.Logf("operator set %d: %.1g", opset, e)
					}
					if e := relative(got.Logits.Data, want.Logits.Data); !(e <= 1e-4) {
						t.Errorf("operator set %d: logits differ by %.2g", opset, e)
					}
				}
			}
		})
	}
}
