package autodiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// reference is a test case of testdata/operators.py: one form of an operator in the
// operator sets From to To. Gradients are those of Σ cos(i)·y[i] for the output y.
type reference struct {
	Name, Op        string
	From, To        int64
	Low, High       float64
	Outputs, Output int
	Shape           []int64 // shape of the output
	Inputs          []struct {
		Shape  []int64
		Ints   []int64
		Floats []float32
		Bools  []bool
		None   bool
	}
	Attributes map[string]struct {
		I    *int64
		F    *float64
		S    *string
		Ints []int64
	}
	Gradients [][]float64
}

// build returns the graph of a case with float inputs. If dynamic is set, the sizes of
// these inputs are symbolic or unknown.
func (r reference) build(opset int64, dynamic bool) (b *onnx.Builder, x []string, y string, in []*ort.Tensor) {
	b = onnx.NewBuilder("case", opset)
	var names []string
	for j, i := range r.Inputs {
		switch {
		case i.None:
			names = append(names, "")
		case i.Ints != nil:
			names = append(names, b.Const(i.Ints, i.Shape...))
		case i.Floats != nil:
			names = append(names, b.Const(i.Floats, i.Shape...))
		case i.Bools != nil:
			names = append(names, b.Const(i.Bools, i.Shape...))
		default:
			mode := "static"
			if dynamic {
				mode = "dynamic"
			}
			name := b.Input(fmt.Sprintf("x%d", j), pb.TensorProto_FLOAT, shapeModes[mode](j, i.Shape)...)
			x, names = append(x, name), append(names, name)
			t, _ := ort.NewTensor(i.Shape, r.values(i.Shape, j))
			in = append(in, t)
		}
	}
	var attrs []*pb.AttributeProto
	for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		switch a := r.Attributes[name]; {
		case a.I != nil:
			attrs = append(attrs, onnx.Attr(name, *a.I))
		case a.F != nil:
			attrs = append(attrs, onnx.Attr(name, *a.F))
		case a.S != nil:
			attrs = append(attrs, onnx.Attr(name, *a.S))
		default:
			attrs = append(attrs, onnx.Attr(name, a.Ints))
		}
	}
	return b, x, b.NodeN(r.Outputs, r.Op, names, attrs...)[r.Output], in
}

// values returns the elements of input j. The formula must equal the one in
// testdata/operators.py.
func (r reference) values(shape []int64, j int) []float32 {
	v := make([]float32, size(shape))
	for i := range v {
		_, f := math.Modf(0.5 + float64(i+1)*0.6180339887498949 + float64(j)*0.37)
		v[i] = float32(r.Low + (r.High-r.Low)*f)
	}
	return v
}

// opsets returns the first and the last operator set of a case, and some between them.
func (r reference) opsets() []int64 {
	var between []int64
	for _, o := range []int64{7, 9, 11, 13, 15, 16, 18, 20, 22, 24} {
		if o > r.From && o < r.To {
			between = append(between, o)
		}
	}
	return slices.Compact(append(append([]int64{r.From}, between...), r.To))
}

func references(t *testing.T) []reference {
	t.Helper()
	raw, err := os.ReadFile("testdata/operators.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []reference
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestOperatorReference compares gradients in single precision with PyTorch's gradients in
// double precision. The cases cover every form of an operator since operator set 7.
func TestOperatorReference(t *testing.T) {
	rt := orttest.Open(t)
	for k, r := range references(t) {
		for _, opset := range r.opsets() {
			t.Run(fmt.Sprintf("%s/%d", r.Name, opset), func(t *testing.T) {
				got := r.gradients(t, rt, opset, (int64(k)+opset)%2 == 0)
				for j, g := range got {
					if e := relativeError(g.Float32s(), r.Gradients[j]); !(e <= 1e-4) {
						t.Errorf("gradient %d: relative error %v", j, e)
					}
				}
			})
		}
	}
}

func (r reference) gradients(t *testing.T, rt *ort.Runtime, opset int64, dynamic bool) []*ort.Tensor {
	t.Helper()
	wave := make([]float32, size(r.Shape))
	for i := range wave {
		wave[i] = float32(math.Cos(float64(i)))
	}
	b, x, y, in := r.build(opset, dynamic)
	up := b.Input("up", pb.TensorProto_FLOAT, shapeModes["static"](0, r.Shape)...)
	u, err := ort.NewTensor(r.Shape, wave)
	if err != nil {
		t.Fatal(err)
	}
	z := b.Node("Mul", []string{y, up})
	b = upgraded(t, b)
	g, err := Gradient(b, "", []Seed{{Output: z}}, x)
	if err != nil {
		t.Fatal(err)
	}
	return runModel(t, rt, modelWithOutputs(t, b, g), append(in, u))
}
