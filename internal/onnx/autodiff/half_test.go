package autodiff

import (
	"fmt"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// halfCases lists operators whose gradients consist of different nodes in half precision
// and in single precision.
var halfCases = []struct {
	name   string
	opsets []int64
	shapes [][]int64
	build  func(*onnx.Builder, []string) string
}{
	{"MaxPool", []int64{12, 13, 17}, [][]int64{{2, 2, 5, 4}},
		op("MaxPool", attrList("kernel_shape", ints(3, 3), "strides", ints(2, 1), "pads", ints(1, 0, 1, 2))...)},
	{"MaxPool disjoint", []int64{12, 17}, [][]int64{{2, 2, 6, 4}}, op("MaxPool", attrList("kernel_shape", ints(2, 2), "strides", ints(2, 2))...)},
	{"GlobalMaxPool", []int64{13}, [][]int64{{2, 2, 6, 4}}, op("GlobalMaxPool")},
	{"Slice", []int64{13}, [][]int64{{6, 4}}, opWithConsts("Slice", []any{ints(1), ints(5), ints(0), ints(2)})},
	{"Pad reflect", []int64{13, 17}, [][]int64{{3, 4}}, opWithConsts("Pad", []any{ints(1, 0, 2, 1)}, onnx.Attr("mode", "reflect"))},
	{"Pad edge", []int64{17}, [][]int64{{3, 4}}, opWithConsts("Pad", []any{ints(1, 0, 2, 1)}, onnx.Attr("mode", "edge"))},
	{"Gather", []int64{13, 17}, [][]int64{{3, 4}}, opWithConsts("Gather", []any{ints(1, 0, 1)}, onnx.Attr("axis", 1))},
	{"GatherElements", []int64{13, 17}, [][]int64{{5}}, opWithConsts("GatherElements", []any{ints(3, 0, 3)})},
	{"GatherND", []int64{13, 17}, [][]int64{{4}}, func(b *onnx.Builder, x []string) string {
		return b.Node("GatherND", []string{x[0], b.Const(ints(2, 0, 2), 3, 1)})
	}},
	{"TopK", []int64{13}, [][]int64{{3, 4}}, func(b *onnx.Builder, x []string) string {
		return b.NodeN(2, "TopK", []string{x[0], b.Const(ints(2))})[0]
	}},
	{"Max", []int64{12, 13, 17}, [][]int64{{3, 4}, {1, 4}}, op("Max")},
	{"Min of three", []int64{12, 13, 17}, [][]int64{{3, 4}, {4}, {3, 1}}, op("Min")},
	{"Max of the same", []int64{13}, [][]int64{{3, 4}}, func(b *onnx.Builder, x []string) string {
		return b.Node("Max", []string{x[0], b.Node("Identity", x), x[0]})
	}},
	{"ReduceMax", []int64{12, 13, 17}, [][]int64{{3, 4}}, op("ReduceMax", onnx.Attr("axes", ints(1)))},
	{"ReduceMin dropped", []int64{13, 17}, [][]int64{{3, 4}}, op("ReduceMin", onnx.Attr("axes", ints(0)), onnx.Attr("keepdims", 0))},
	{"ReduceMax of what is computed", []int64{12, 13, 18}, [][]int64{{3, 4}}, func(b *onnx.Builder, x []string) string {
		return b.Node("ReduceMax", []string{b.Node("Mul", []string{b.Node("Sigmoid", x), b.Node("Sqrt", []string{b.Node("Exp", x)})})})
	}},
	{"ReduceMax input", []int64{18, 20}, [][]int64{{3, 4}}, opWithConsts("ReduceMax", []any{ints(1)})},
	{"ScatterElements", []int64{13}, [][]int64{{5}, {2}}, func(b *onnx.Builder, x []string) string {
		return b.Node("ScatterElements", []string{x[0], b.Const(ints(3, 0)), x[1]})
	}},
	{"ScatterND", []int64{13}, [][]int64{{5}, {2}}, func(b *onnx.Builder, x []string) string {
		return b.Node("ScatterND", []string{x[0], b.Const(ints(3, 0), 2, 1), x[1]})
	}},
}

// TestHalf compares gradients in half precision with gradients in single precision.
func TestHalf(t *testing.T) {
	rt := orttest.Open(t)
	for _, c := range halfCases {
		for _, opset := range c.opsets {
			for mode := range shapeModes {
				t.Run(fmt.Sprintf("%s/%d/%s", c.name, opset, mode), func(t *testing.T) {
					gradient := func(elem pb.TensorProto_DataType) []*ort.Tensor {
						b := onnx.NewBuilder("case", opset)
						var x, inner []string
						var in []*ort.Tensor
						for i, shape := range c.shapes {
							v := reference{Low: -2, High: 2}.values(shape, i)
							value, _ := ort.NewTensor(shape, v)
							in = append(in, value)
							x = append(x, b.Input(fmt.Sprintf("x%d", i), pb.TensorProto_FLOAT, shapeModes[mode](i, shape)...))
							inner = append(inner, b.Node("Cast", x[i:], onnx.Attr("to", elem)))
						}
						y := c.build(b, inner)
						y = b.Node("Mul", []string{y, y})
						b = upgraded(t, b)
						g, err := Gradient(b, "", []Seed{{Output: y}}, x)
						if err != nil {
							t.Fatal(err)
						}
						return runModel(t, rt, modelWithOutputs(t, b, g), in)
					}
					want := gradient(pb.TensorProto_FLOAT)
					for i, g := range gradient(pb.TensorProto_FLOAT16) {
						got, want := g.Float32s(), want[i].Float32s()
						for j := range want {
							if !(math.Abs(float64(got[j]-want[j])) <= 5e-3*(1+math.Abs(float64(want[j])))) {
								t.Errorf("gradient %d[%d] is %v, in single precision %v", i, j, got[j], want[j])
							}
						}
					}
				})
			}
		}
	}
}
