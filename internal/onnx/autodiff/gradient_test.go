package autodiff

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// shapeModes declares the shapes of inputs: completely ("static") or with unknown sizes
// ("dynamic").
var shapeModes = map[string]func(input int, shape []int64) []any{
	"static": func(_ int, shape []int64) []any {
		dims := make([]any, len(shape))
		for i, d := range shape {
			dims[i] = d
		}
		return dims
	},
	// Every other axis has a symbolic name, and the rest are unknown.
	"dynamic": func(input int, shape []int64) []any {
		dims := make([]any, len(shape))
		for i := range shape {
			dims[i] = -1
			if i%2 == 0 {
				dims[i] = fmt.Sprintf("d%d_%d", input, i)
			}
		}
		return dims
	},
}

// TestGradient checks first and second derivatives of graphs. For static shapes it compares
// them with central differences. For dynamic shapes it compares them with the results for
// static shapes.
func TestGradient(t *testing.T) {
	rt := orttest.Open(t)
	for _, c := range allCases() {
		var static [][]float64
		if t.Run(c.name+"/static", func(t *testing.T) { static = checkCase(t, rt, c, "static", nil) }) {
			t.Run(c.name+"/dynamic", func(t *testing.T) { checkCase(t, rt, c, "dynamic", static) })
		}
	}
}

// checkCase returns the outputs of a case. It compares them with want or, if want is nil,
// with central differences.
func checkCase(t *testing.T, rt *ort.Runtime, c graphCase, mode string, want [][]float64) [][]float64 {
	dims := shapeModes[mode]
	opset := c.opset
	if opset == 0 {
		opset = 17
	}
	b := onnx.NewBuilder("case", opset)
	rng := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	var x, first, second []string
	var values [][]float64
	low, high := c.low, c.high
	if low == 0 && high == 0 {
		low, high = -2, 2
	}
	for i, shape := range c.shapes {
		x = append(x, b.Input(fmt.Sprintf("x%d", i), pb.TensorProto_DOUBLE, dims(i, shape)...))
		v := make([]float64, size(shape))
		for j := range v {
			v[j] = low + (high-low)*rng.Float64()
		}
		values = append(values, v)
	}
	y := ""
	if c.single {
		narrow := make([]string, len(x))
		for i := range x {
			narrow[i] = b.Node("Cast", x[i:i+1], onnx.Attr("to", pb.TensorProto_FLOAT))
		}
		y = b.Node("Cast", []string{c.build(b, narrow)}, onnx.Attr("to", pb.TensorProto_DOUBLE))
	} else {
		y = c.build(b, x)
	}
	b = upgraded(t, b)
	// Squaring makes the second derivative of every case depend on its inputs.
	z := b.Node("Mul", []string{y, y})
	weighted := func(tensor string) string {
		wave := b.Node("Cos", []string{rangeLike(b, tensor)})
		sum := b.Node("ReduceSum", []string{b.Node("Mul", []string{tensor, wave})}, onnx.Attr("keepdims", 0))
		return b.Node("Unsqueeze", []string{sum, b.Const(ints(0))}) // the binding does not support scalars
	}
	total := weighted(z)
	first, err := Gradient(b, "", []Seed{{Output: total}}, x)
	if err != nil {
		t.Fatal(err)
	}
	slope := weighted(first[0])
	for _, g := range first[1:] {
		slope = b.Node("Add", []string{slope, weighted(g)})
	}
	second, err = Gradient(b, "", []Seed{{Output: slope}}, x)
	if err != nil {
		t.Fatal(err)
	}
	outputs := append([]string{total, slope}, append(first, second...)...)
	for _, o := range outputs {
		b.Output(o, pb.TensorProto_DOUBLE)
		b.Graph().Output[len(b.Graph().Output)-1].Type.GetTensorType().Shape = nil
	}
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.NewSession(context.Background(), ort.Model{Proto: m}, x, outputs)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := evaluate(t, s, c.shapes, values)
	h, tolerance := 1e-5, 1e-5
	if c.single {
		h, tolerance = 1e-2, 1e-3
	}
	if want != nil {
		for k := range want {
			if len(got[k]) != len(want[k]) {
				t.Fatalf("output %d has %d elements, want %d", k, len(got[k]), len(want[k]))
			}
			for i, v := range want[k] {
				if !(math.Abs(got[k][i]-v) <= tolerance*(1+math.Abs(v))) {
					t.Errorf("element %d of output %d is %v, and %v if shapes are static", i, k, got[k][i], v)
				}
			}
		}
		return got
	}
	for i := range x {
		for j := range values[i] {
			at := values[i][j]
			values[i][j] = at + h
			above := evaluate(t, s, c.shapes, values)
			values[i][j] = at - h
			below := evaluate(t, s, c.shapes, values)
			values[i][j] = at
			for k, grads := range [][][]float64{got[2 : 2+len(x)], got[2+len(x):]} {
				want := (above[k][0] - below[k][0]) / (2 * h)
				if len(grads[i]) != len(values[i]) {
					t.Fatalf("derivative %d by x%d has %d elements, want %d", k+1, i, len(grads[i]), len(values[i]))
				}
				if g := grads[i][j]; !(math.Abs(g-want) <= tolerance*(1+math.Abs(want))) {
					t.Errorf("derivative %d by x%d[%d] is %v, central difference %v", k+1, i, j, g, want)
				}
			}
		}
	}
	return got
}

// rangeLike returns a tensor 0, 1, 2, … in the shape of the given tensor, as doubles.
func rangeLike(b *onnx.Builder, tensor string) string {
	r := b.Node("Range", []string{b.Const(int64(0)), b.Node("Size", []string{tensor}), b.Const(int64(1))})
	r = b.Node("Cast", []string{r}, onnx.Attr("to", pb.TensorProto_DOUBLE))
	return b.Node("Reshape", []string{r, b.Node("Shape", []string{tensor})})
}

func size(shape []int64) int {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return int(n)
}

func evaluate(t *testing.T, s *ort.Session, shapes [][]int64, values [][]float64) [][]float64 {
	t.Helper()
	in := make([]*ort.Tensor, len(shapes))
	for i, shape := range shapes {
		x, err := ort.NewTensor(shape, values[i])
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		in[i] = x
	}
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	results := make([][]float64, len(out))
	for i, o := range out {
		results[i] = append([]float64(nil), ort.View[float64](o)...)
		o.Close()
	}
	return results
}

// TestRulesAreTested checks that at least one test case uses each operator of the default
// domain that has a rule, except those in testedElsewhere.
func TestRulesAreTested(t *testing.T) {
	used := make(map[string]bool)
	collect := func(b *onnx.Builder) {
		for _, n := range b.Graph().Node {
			used[n.GetOpType()] = true
		}
	}
	for _, c := range allCases() {
		b := onnx.NewBuilder("case", 17)
		var x []string
		for i := range c.shapes {
			x = append(x, b.Input(fmt.Sprintf("x%d", i), pb.TensorProto_DOUBLE))
		}
		c.build(b, x)
		collect(b)
	}
	for _, c := range quantizedCases {
		b := onnx.NewBuilder("case", 17)
		c.build(b, b.Input("x", pb.TensorProto_FLOAT))
		collect(b)
	}
	for _, r := range references(t) {
		used[r.Op] = true
	}
	for name := range rules {
		if !used[name] && !testedElsewhere[name] {
			t.Errorf("no case tests the rule of %s", name)
		}
	}
}

func TestGradientErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(b *onnx.Builder, x string) string
		is    error
		want  string
	}{
		{"no rule", func(b *onnx.Builder, x string) string {
			return b.Append(onnx.Node{Op: "Mystery", Name: "layer7", Inputs: []string{x}})[0]
		}, nil, "layer7"},
		{"another domain", func(b *onnx.Builder, x string) string {
			b.Import("com.example", 1)
			return b.Append(onnx.Node{Op: "Relu", Domain: "com.example", Inputs: []string{x}})[0]
		}, nil, "com.example.Relu"},
		{"only through steps", func(b *onnx.Builder, x string) string { return b.Node("Floor", []string{x}) }, ErrNoPath, `"x"`},
		{"bounds of Clip", func(b *onnx.Builder, x string) string {
			return b.Node("Clip", []string{b.Const([]float32{1, 2, 3}), b.Node("ReduceSum", []string{x}, onnx.Attr("keepdims", 0))})
		}, nil, "bounds"},
	} {
		b := onnx.NewBuilder("g", 17)
		x := b.Input("x", pb.TensorProto_FLOAT, 3)
		y := test.build(b, x)
		_, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one that says %s", test.name, err, test.want)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: error %v does not wrap %v", test.name, err, test.is)
		}
	}
}

// TestGradientStopsUnused checks that a graph may contain operators without a rule if no
// gradient passes through them.
func TestGradientStopsUnused(t *testing.T) {
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 3)
	side := b.Node("Mystery", []string{b.Const([]float32{1, 2, 3})})
	b.Node("Mystery", []string{x})
	y := b.Node("Mul", []string{x, side})
	if _, err := Gradient(b, "", []Seed{{Output: y}}, []string{x}); err != nil {
		t.Error(err)
	}
}

func TestGradientStop(t *testing.T) {
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 3)
	e := b.Node("Exp", []string{x})
	y := b.Node("Mul", []string{x, e})
	g, err := Gradient(b, "", []Seed{{Output: y}}, []string{x}, e)
	if err != nil {
		t.Fatal(err)
	}
	// If e is constant, the gradient of x·e is e.
	n := b.Index().Producer(g[0])
	if n.GetOpType() != "Mul" || n.Input[1] != e {
		t.Errorf("the gradient is %s of %q, want ones times %q", n.GetOpType(), n.Input, e)
	}
	if _, err := Gradient(b, "", []Seed{{Output: e}}, []string{x}, e); !errors.Is(err, ErrNoPath) {
		t.Errorf("error %v, want ErrNoPath", err)
	}
}

// TestGradientOfNamelessAxes checks that an axis without a name is known to have the same
// length in derived tensors. Otherwise, the gradient would sum over broadcast axes.
func TestGradientOfNamelessAxes(t *testing.T) {
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, -1, -1)
	y := b.Node("Mul", []string{x, b.Node("Exp", []string{x})})
	if _, err := Gradient(b, "", []Seed{{Output: y}}, []string{x}); err != nil {
		t.Fatal(err)
	}
	for _, n := range b.Graph().Node {
		if n.GetOpType() == "ReduceSum" {
			t.Errorf("%v", n)
		}
	}
}
