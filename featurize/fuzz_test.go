package featurize

import (
	"os"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// FuzzFind walks hostile graphs: it may find nothing, but does not panic.
func FuzzFind(f *testing.F) {
	seeds := 0
	add := func(build func(b *onnx.Builder, x string) string) {
		b := onnx.NewBuilder("seed", 13)
		y := build(b, b.Input("x", pb.TensorProto_FLOAT, "n", 2))
		b.Output(y, pb.TensorProto_FLOAT, "n", 2)
		m, err := b.Model()
		if err != nil {
			f.Fatal(err)
		}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		seeds++
	}
	w := []float32{1, 2, 3, 4}
	add(func(b *onnx.Builder, x string) string {
		return b.Node("Softmax", []string{b.Node("Gemm", []string{x, b.Const(w, 2, 2), b.Const([]float32{1, 2})})})
	})
	add(func(b *onnx.Builder, x string) string {
		d := b.NodeN(3, "DynamicQuantizeLinear", []string{x})
		y := b.Node("Cast", []string{b.Node("MatMulInteger", []string{d[0], b.Const(w, 2, 2), d[2]})}, onnx.Attr("to", 1))
		return b.Node("Mul", []string{y, b.Node("Mul", []string{d[1], b.Const(float32(2))})})
	})
	add(func(b *onnx.Builder, x string) string {
		return b.Node("ReduceMean", []string{b.Node("BatchNormalization", []string{b.Node("Conv", []string{x, b.Const(w, 2, 2, 1, 1)}), x, x, x, x})})
	})
	add(func(b *onnx.Builder, x string) string {
		return b.Node("DequantizeLinear", []string{b.Node("QLinearMatMul", []string{x, x, x, x, x, x, x, x}), b.Const(float32(1))})
	})
	for _, path := range []string{"logistic", "linear", "xgboost"} {
		data, err := os.ReadFile("../testmodels/tables/" + path + ".onnx")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := onnx.Parse(data)
		if err != nil {
			return
		}
		if g, err = lower(g); err != nil {
			return
		}
		in, err := findInputs(g, "")
		if err != nil {
			return
		}
		k := newConstants(g, "", nil)
		for _, v := range g.Outputs() {
			p, err := find(k, v.GetName())
			if err != nil {
				continue
			}
			edited := exposed(g, in, []view{p.feature, {tensor: p.logits}}, []string{featuresName, logitsName})
			if _, err := proto.Marshal(edited); err != nil {
				t.Fatal(err)
			}
			spread(source{constants: k, inputs: in}.layersBefore(p.feature.tensor), maxProbed)
			_, _ = dropLayers(g, "", p.logits) // what it cannot read is an error
		}
		in.shapes(g)
		_, _ = in.take(ood.BlockOf([]int{2, 2}, make([]float32, 4)), 0)
	})
}
