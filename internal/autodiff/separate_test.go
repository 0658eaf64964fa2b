package autodiff

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// TestSeparate holds that a backward model of its own gives what a merged
// graph gives, for every case of the tables.
func TestSeparate(t *testing.T) {
	rt := orttest.Open(t)
	for _, c := range allCases() {
		for _, mode := range []string{"static", "symbols"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				merged, x, y := buildCase(c, mode)
				gradients, err := Gradient(merged, []Seed{{Output: y}}, x)
				if errors.Is(err, ErrOpset) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				want := runModel(t, rt, outputs(t, merged, gradients), values(c))

				forward, x, y := buildCase(c, mode)
				got := runSeparate(t, rt, forward, x, y, values(c))
				for i := range want {
					a, b := got[i].AppendFloat32s(nil), want[i].AppendFloat32s(nil)
					if len(a) != len(b) {
						t.Fatalf("gradient %d has %d elements, want %d", i, len(a), len(b))
					}
					for j := range a {
						if e := math.Abs(float64(a[j] - b[j])); !(e <= 1e-5*(1+math.Abs(float64(b[j])))) {
							t.Errorf("gradient %d[%d] is %v, merged %v", i, j, a[j], b[j])
						}
					}
				}
			})
		}
	}
}

// buildCase makes a case's graph with double inputs.
func buildCase(c graphCase, mode string) (b *onnx.Builder, x []string, y string) {
	opset := c.opset
	if opset == 0 {
		opset = 17
	}
	b = onnx.NewBuilder("case", opset)
	inner := make([]string, len(c.shapes))
	for i, shape := range c.shapes {
		x = append(x, b.Input(fmt.Sprintf("x%d", i), pb.TensorProto_DOUBLE, shapeModes[mode](i, shape)...))
		inner[i] = x[i]
		if c.single {
			inner[i] = b.Node("Cast", x[i:i+1], onnx.Attr("to", pb.TensorProto_FLOAT))
		}
	}
	return b, x, c.build(b, inner)
}

func values(c graphCase) []*ort.Tensor {
	rng := rand.New(rand.NewPCG(3, uint64(len(c.name))))
	low, high := c.low, c.high
	if low == 0 && high == 0 {
		low, high = -2, 2
	}
	in := make([]*ort.Tensor, len(c.shapes))
	for i, shape := range c.shapes {
		v := make([]float64, size(shape))
		for j := range v {
			v[j] = low + (high-low)*rng.Float64()
		}
		in[i], _ = ort.NewTensor(shape, v)
	}
	return in
}

// declareOutputs adds outputs of any type.
func declareOutputs(b *onnx.Builder, tensors []string) {
	for _, o := range tensors {
		b.OutputAs("out", o, pb.TensorProto_DOUBLE)
		b.Graph().Output[len(b.Graph().Output)-1].Type = nil
	}
}

func outputs(t *testing.T, b *onnx.Builder, tensors []string) *pb.ModelProto {
	t.Helper()
	declareOutputs(b, tensors)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func runModel(t *testing.T, rt *ort.Runtime, m *pb.ModelProto, in []*ort.Tensor) []*ort.Tensor {
	t.Helper()
	s, err := rt.NewSession(context.Background(), ort.Model{Proto: m}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func runSeparate(t *testing.T, rt *ort.Runtime, forward *onnx.Builder, x []string, y string, in []*ort.Tensor) []*ort.Tensor {
	t.Helper()
	s := NewSeparate(forward.Index(), "")
	gradients, err := s.Gradient([]Seed{{Output: y}}, x)
	if err != nil {
		t.Fatal(err)
	}
	declareOutputs(s.Builder(), gradients)
	m, taken, err := s.Model()
	if err != nil {
		t.Fatal(err)
	}
	if len(taken) == 0 {
		t.Skip("the gradient reads nothing: the runtime's binding wants an input")
	}
	for i, a := range taken {
		tensor := a.Tensor
		if a.Shape {
			tensor = forward.Node("Shape", []string{a.Tensor})
		}
		v := proto.CloneOf(m.Graph.Input[i])
		v.Name = proto.String(forward.Node("Identity", []string{tensor}))
		if !a.Scalar {
			v.Type.GetTensorType().Shape = nil
		}
		forward.Graph().Output = append(forward.Graph().Output, v)
	}
	first, err := forward.Model()
	if err != nil {
		t.Fatal(err)
	}
	return runModel(t, rt, m, runModel(t, rt, first, in))
}

// TestSeparateTakes holds that the backward model takes what it reads, and of
// what only the shape is read, the shape.
func TestSeparateTakes(t *testing.T) {
	b := onnx.NewBuilder("g", 9)
	x := b.Input("x", pb.TensorProto_FLOAT, "n", 3)
	w := b.Initializer("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2)
	unused := b.Node("Exp", []string{x})
	h := b.Node("MatMul", []string{unused, w})
	r := b.Node("Relu", []string{h})
	y := b.Node("Add", []string{b.Node("Flatten", []string{r}), b.Const([]float32{1, 2})})
	s := NewSeparate(b.Index(), "")
	g, err := s.Gradient([]Seed{{Output: y}}, []string{x})
	if err != nil {
		t.Fatal(err)
	}
	declareOutputs(s.Builder(), g)
	m, taken, err := s.Model()
	if err != nil {
		t.Fatal(err)
	}
	if m.GetOpsetImport()[0].GetVersion() != separateOpset {
		t.Errorf("operator set %v", m.GetOpsetImport())
	}
	var whole, shapes []string
	for _, a := range taken {
		if a.Shape {
			shapes = append(shapes, a.Tensor)
		} else {
			whole = append(whole, a.Tensor)
		}
	}
	slices.Sort(whole)
	if want := []string{unused, r}; !slices.Equal(whole, want) {
		t.Errorf("takes %q whole, want %q", whole, want)
	}
	if slices.Contains(shapes, x) {
		t.Errorf("takes the shapes of %q", shapes)
	}
	names := make([]string, len(m.Graph.Initializer))
	for i, c := range m.Graph.Initializer {
		names[i] = c.GetName()
	}
	if !slices.Contains(names, w) {
		t.Errorf("constants %q lack %q", names, w)
	}
}
