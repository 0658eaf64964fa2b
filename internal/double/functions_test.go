package double_test

import (
	"context"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/internal/autodiff"
	"github.com/attach-uncertainty/attach/internal/double"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// doubled is the model of a graph in double precision.
func doubled(t *testing.T, b *onnx.Builder) *pb.ModelProto {
	t.Helper()
	m, err := b.Model()
	if err == nil {
		err = double.Promote(m, "")
	}
	if err == nil {
		err = double.Lower(m, autodiff.Types(onnx.Extend(m).Index(), ""))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run makes a graph double and runs it on a vector.
func run(t *testing.T, rt *ort.Runtime, x []float64, build func(b *onnx.Builder, x string) string) []float64 {
	t.Helper()
	b := onnx.NewBuilder("case", 20)
	in := b.Input("x", pb.TensorProto_FLOAT, "n")
	b.OutputAs("y", build(b, in), pb.TensorProto_FLOAT, "n")
	raw, err := onnx.Extend(doubled(t, b)).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.NewSession(context.Background(), ort.Model{Data: raw, Unfused: true}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tensor, err := ort.NewTensor([]int64{int64(len(x))}, x)
	if err != nil {
		t.Fatal(err)
	}
	defer tensor.Close()
	out, err := s.Run(context.Background(), []*ort.Tensor{tensor})
	if err != nil {
		t.Fatal(err)
	}
	defer out[0].Close()
	return append([]float64(nil), out[0].Float64s()...)
}

// around are numbers of both signs from very small ones on, dense around 1.
func around(most float64) []float64 {
	x := []float64{0}
	for v := 1e-300; v < most; v *= 1.7 {
		x = append(x, v, -v)
		if v < 1e-3 {
			v *= 10
		}
	}
	for v := -min(most, 8.0); v < min(most, 8.0); v += .0123 {
		x = append(x, v)
	}
	return append(x, most, -most)
}

// TestFunctions compares with Go's functions, relative to the larger of the
// value and an absolute scale where a formula cancels.
func TestFunctions(t *testing.T) {
	rt := orttest.Open(t)
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	softplus := func(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
	for _, k := range []struct {
		op       string
		want     func(float64) float64
		most     float64
		absolute float64 // what the error is relative to at least
	}{
		{"Erf", math.Erf, 30, 0},
		{"Gelu", func(x float64) float64 { return x * phi(x) }, 30, 1},
		{"Softplus", softplus, 300, 0},
		{"Mish", func(x float64) float64 { return x * math.Tanh(softplus(x)) }, 300, 0},
		{"Softsign", func(x float64) float64 { return x / (1 + math.Abs(x)) }, 1e300, 0},
		{"Elu", func(x float64) float64 { return math.Max(x, 0) + math.Expm1(math.Min(x, 0)) }, 700, 0},
		{"Celu", func(x float64) float64 { return math.Max(x, 0) + math.Expm1(math.Min(x, 0)) }, 700, 0},
		{"HardSwish", func(x float64) float64 { return x * math.Min(math.Max(x/6+.5, 0), 1) }, 1e300, 1},
		{"Tan", math.Tan, 1.5, 0},
		{"Asin", math.Asin, .999, 0},
		{"Acos", math.Acos, .999, 1},
		{"Atan", math.Atan, 1e300, 0},
		{"Sinh", math.Sinh, 700, 0},
		{"Cosh", math.Cosh, 700, 0},
		{"Asinh", math.Asinh, 1e150, 0},
		{"Acosh", math.Acosh, 1e150, 0},
		{"Atanh", math.Atanh, .999, 0},
	} {
		x := around(k.most)
		if k.op == "Acosh" {
			for i := range x {
				x[i] = 1 + math.Abs(x[i])
			}
		}
		got := run(t, rt, x, func(b *onnx.Builder, x string) string { return b.Node(k.op, []string{x}) })
		for i, v := range x {
			want := k.want(v)
			if e := math.Abs(got[i]-want) / math.Max(math.Abs(want), math.Max(k.absolute, 1e-290)); !(e <= 4e-15) {
				t.Errorf("%s(%v) is %v, want %v: error %.1g", k.op, v, got[i], want, e)
			}
		}
	}
}

// TestKernels tells the operators without a derivative from their forms in
// single precision by numbers that single precision does not tell apart.
func TestKernels(t *testing.T) {
	rt := orttest.Open(t)
	const d = 1e-12
	x := []float64{-1 - d, -1, -d, 0, d, 1, 1 + d, 2 - d}
	real := func(b *onnx.Builder, mask string) string {
		return b.Node("Cast", []string{mask}, onnx.Attr("to", pb.TensorProto_FLOAT))
	}
	compare := func(op string) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return real(b, b.Node(op, []string{x, b.Const(float32(1))})) }
	}
	unary := func(op string) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return b.Node(op, []string{x}) }
	}
	best := func(op string) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return real(b, b.Node(op, []string{x})) }
	}
	for name, k := range map[string]struct {
		build func(b *onnx.Builder, x string) string
		want  []float64
	}{
		"ArgMax":         {best("ArgMax"), []float64{7}},
		"ArgMin":         {best("ArgMin"), []float64{0}},
		"Ceil":           {unary("Ceil"), []float64{-1, -1, 0, 0, 1, 1, 2, 2}},
		"Equal":          {compare("Equal"), []float64{0, 0, 0, 0, 0, 1, 0, 0}},
		"Floor":          {unary("Floor"), []float64{-2, -1, -1, 0, 0, 1, 1, 1}},
		"Greater":        {compare("Greater"), []float64{0, 0, 0, 0, 0, 0, 1, 1}},
		"GreaterOrEqual": {compare("GreaterOrEqual"), []float64{0, 0, 0, 0, 0, 1, 1, 1}},
		"Identity":       {unary("Identity"), x},
		"IsInf":          {best("IsInf"), make([]float64, 8)},
		"IsNaN":          {best("IsNaN"), make([]float64, 8)},
		"Less":           {compare("Less"), []float64{1, 1, 1, 1, 1, 0, 0, 0}},
		"LessOrEqual":    {compare("LessOrEqual"), []float64{1, 1, 1, 1, 1, 1, 0, 0}},
		"Round": {func(b *onnx.Builder, x string) string {
			return b.Node("Round", []string{b.Node("Mul", []string{x, b.Const(float32(.5))})})
		}, []float64{-1, 0, 0, 0, 0, 0, 1, 1}},
		"Sign": {unary("Sign"), []float64{-1, -1, -1, 0, 1, 1, 1, 1}},
		"NonZero": {func(b *onnx.Builder, x string) string {
			return real(b, b.Node("Reshape", []string{b.Node("NonZero", []string{x}), b.Const([]int64{-1})}))
		}, []float64{0, 1, 2, 4, 5, 6, 7}},
		"OneHot": {func(b *onnx.Builder, x string) string {
			return b.Node("OneHot", []string{b.Const([]int64{1}), b.Const(int64(3)), b.Const([]float32{0, 1})})
		}, []float64{0, 1, 0}},
		"Range": {func(b *onnx.Builder, x string) string {
			return b.Node("Range", []string{b.Const(float32(0)), b.Node("Squeeze", []string{b.Node("Slice", []string{x, b.Const([]int64{6}), b.Const([]int64{7})})}), b.Const(float32(1))})
		}, []float64{0, 1}},
		"ConstantOfShape": {func(b *onnx.Builder, x string) string {
			return b.Node("ConstantOfShape", []string{b.Const([]int64{2})})
		}, []float64{0, 0}},
		"Constant": {func(b *onnx.Builder, x string) string {
			one := b.Node("Constant", nil, onnx.Attr("value_float", .5))
			return b.Node("Mul", []string{one, b.Node("Constant", nil, onnx.Attr("value_floats", []float32{1, 3}))})
		}, []float64{.5, 1.5}},
		"EyeLike": {func(b *onnx.Builder, x string) string {
			return b.Node("Reshape", []string{b.Node("EyeLike", []string{b.Node("Reshape", []string{x, b.Const([]int64{4, 2})})}), b.Const([]int64{-1})})
		}, []float64{1, 0, 0, 1, 0, 0, 0, 0}},
		"CastLike": {func(b *onnx.Builder, x string) string {
			return b.Node("CastLike", []string{b.Node("Shape", []string{x}), x})
		}, []float64{8}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, rt, x, k.build)
			if len(got) != len(k.want) {
				t.Fatalf("%v, want %v", got, k.want)
			}
			for i, v := range got {
				if v != k.want[i] {
					t.Errorf("%v, want %v", got, k.want)
					break
				}
			}
		})
	}
}
