package featurize_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// dropoutNet builds a model with a dropout layer of rate 1/2 on the input, and one of rate
// 1/4 on φ.
func dropoutNet(t testing.TB, opset int64) string {
	drop := func(b *onnx.Builder, x string, rate float32) string {
		if opset < 12 {
			return b.Node("Dropout", []string{x}, onnx.Attr("ratio", rate))
		}
		return b.Node("Dropout", []string{x, b.Const(rate)})
	}
	return tiny(t, opset, func(b *onnx.Builder, x string) {
		addOutput(b, b.Node("Softmax", []string{gemm(b, drop(b, phiOf(b, drop(b, x, .5)), .25))}, onnx.Attr("axis", 1)))
	}, "n", 3)
}

// dropoutPasses returns the logits of n passes with dropout, for rows that are numbered
// from start.
func dropoutPasses(t testing.TB, m *featurize.Model, shape []int, x []float32, start, n int, p float64, seed uint64) []float32 {
	t.Helper()
	block := ood.BlockOf(shape, x)
	block.Start = start
	z, err := m.Network().Dropout(context.Background(), block, n, p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestDropout checks that the model's own dropout layers drop at their own rates. The
// logits of many passes must have the mean and the variance over all masks, which the test
// enumerates.
func TestDropout(t *testing.T) {
	rt := runtime(t)
	x := []float32{1, 2, 3}
	var mean, secondMoment [c]float64
	for bits := range 1 << (3 + h) {
		probability := 1.0
		row := []float64{1, 2, 3}
		for k := range row {
			probability *= .5
			row[k] *= 2 * float64(bits>>k&1)
		}
		var z [c]float64
		for i := range c {
			z[i] = float64(headB[i])
		}
		for j := range h {
			phi := 0.0
			for k := range row {
				phi += row[k] * float64(trunk[k*h+j])
			}
			if bits>>(3+j)&1 == 0 {
				probability *= .25
				continue
			}
			probability *= .75
			for i := range c {
				z[i] += max(phi, 0) / .75 * float64(headW[i*h+j])
			}
		}
		for i := range c {
			mean[i] += probability * z[i]
			secondMoment[i] += probability * z[i] * z[i]
		}
	}
	for _, opset := range []int64{9, 13} {
		m := open(t, rt, dropoutNet(t, opset), featurize.Options{Batch: 4})
		if m.Network().Dropouts() != 2 {
			t.Fatalf("opset %d: %d dropout layers, want 2", opset, m.Network().Dropouts())
		}
		const n = 20000
		z := dropoutPasses(t, m, []int{1, 3}, x, 0, n, 0, 1)
		for i := range c {
			sum, squares := 0.0, 0.0
			for s := range n {
				v := float64(z[s*c+i])
				sum, squares = sum+v, squares+v*v
			}
			got, variance := sum/n, secondMoment[i]-mean[i]*mean[i]
			if e := math.Abs(got - mean[i]); e > 4*math.Sqrt(variance/n) {
				t.Errorf("opset %d: output %d has mean %.3f, want %.3f", opset, i, got, mean[i])
			}
			if v := squares/n - got*got; math.Abs(v/variance-1) > .05 {
				t.Errorf("opset %d: output %d has variance %.3f, want %.3f", opset, i, v, variance)
			}
		}
	}
}

// TestDropoutSeeds checks that passes differ and that the seed determines them. The
// position of a row and the batch size must not matter.
func TestDropoutSeeds(t *testing.T) {
	rt := runtime(t)
	x := noise(3 * 7)
	path := dropoutNet(t, 13)
	m := open(t, rt, path, featurize.Options{Batch: 4})
	z := dropoutPasses(t, m, []int{7, 3}, x, 0, 3, 0, 5)
	if again := dropoutPasses(t, open(t, rt, path, featurize.Options{Batch: 7}), []int{7, 3}, x, 0, 3, 0, 5); !slices.Equal(z, again) {
		t.Error("the same seed in batches of another size gives other logits")
	}
	if other := dropoutPasses(t, m, []int{7, 3}, x, 0, 3, 0, 6); slices.Equal(z, other) {
		t.Error("another seed gives the same logits")
	}
	if slices.Equal(z[:7*c], z[7*c:14*c]) {
		t.Error("two passes are the same")
	}
	tail := dropoutPasses(t, m, []int{2, 3}, x[5*3:], 0, 3, 0, 5)
	for s := range 3 {
		checkNear(t, "rows that stand first", tail[s*2*c:(s+1)*2*c], z[(s*7+5)*c:(s+1)*7*c], 0)
	}
}

// TestDropoutInserted checks that a dropout layer is inserted before the last layer if the
// model has none.
func TestDropoutInserted(t *testing.T) {
	rt := runtime(t)
	x := noise(3 * 5)
	for _, k := range []struct {
		elem pb.TensorProto_DataType
		tol  float64
	}{{float, 1e-5}, {pb.TensorProto_DOUBLE, 1e-5}, {pb.TensorProto_FLOAT16, 5e-3}} {
		b := onnx.NewBuilder("tiny", 13)
		as := func(name string) string { return b.Node("Cast", []string{name}, onnx.Attr("to", k.elem)) }
		in := b.Input("x", k.elem, 2, 3)
		phi := b.Node("Relu", []string{b.Node("MatMul", []string{in, as(b.Initializer("trunk", trunk, 3, h))})})
		y := b.Node("Gemm", []string{phi, as(b.Initializer("W", headW, c, h)), as(b.Initializer("b", headB))}, onnx.Attr("transB", 1))
		b.Output(y, k.elem, 2, c)
		model, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		m := open(t, rt, save(t, model), featurize.Options{})
		if m.Network().Dropouts() != 0 {
			t.Errorf("%d dropout layers, want none", m.Network().Dropouts())
		}
		// Each row's logits must match one of the 2⁴ masks.
		const rate = .4
		phis := trunkOf(x)
		z := dropoutPasses(t, m, []int{5, 3}, x, 0, 4, rate, 1)
		for at := 0; at < len(z); at += c {
			row := at / c % 5
			best := math.Inf(1)
			for bits := range 1 << h {
				remaining := make([]float32, h)
				for j := range h {
					remaining[j] = phis[row*h+j] * float32(bits>>j&1) / (1 - rate)
				}
				best = min(best, relative(z[at:at+c], affine(remaining, headW, headB, h)))
			}
			if best > k.tol {
				t.Errorf("%v: logits %v of row %d are those of no mask", k.elem, z[at:at+c], row)
			}
		}
		_, err = m.Network().Dropout(context.Background(), ood.BlockOf([]int{5, 3}, x), 4, 0, 1)
		if !errors.Is(err, ood.ErrNoDropout) {
			t.Errorf("error %v without a rate, want ErrNoDropout", err)
		}
	}
}

// TestDropoutCut checks that tensors from before the first dropout layer reach the nodes
// after it. The types and ranks of these tensors vary.
func TestDropoutCut(t *testing.T) {
	rt := runtime(t)
	for _, elem := range []pb.TensorProto_DataType{float, pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16} {
		b := onnx.NewBuilder("tiny", 18)
		as := func(name string, elem pb.TensorProto_DataType) string {
			return b.Node("Cast", []string{name}, onnx.Attr("to", elem))
		}
		x := as(b.Input("x", float, "n", 3), elem)
		phi := b.Node("MatMul", []string{x, as(b.Initializer("trunk", trunk, 3, h), elem)})
		number := b.Node("ReduceMax", []string{as(b.Initializer("numbers", []float32{.25, .5}), elem)}, onnx.Attr("keepdims", 0))
		number = b.Node("Mul", []string{b.Node("ReduceMax", []string{b.Node("Sign", []string{b.Node("Abs", []string{x})})}, onnx.Attr("keepdims", 0)), number})
		// The rank of this tensor is unknown before the graph runs.
		indexes := b.Node("NonZero", []string{b.Node("Greater", []string{b.Node("Shape", []string{x}), b.Const(int64(-1))})})
		unknown := b.Node("ReduceMax", []string{x, b.Node("Reshape", []string{indexes, b.Const([]int64{-1})})}, onnx.Attr("keepdims", 0))
		nothing := b.Node("Mul", []string{b.Node("Dropout", []string{phi, b.Const(float32(.5))}), as(b.Const(float32(0)), elem)})
		v := b.Node("Add", []string{b.Node("Add", []string{phi, nothing}), b.Node("Add", []string{b.Node("Add", []string{nothing, number}), unknown})})
		b.Output(as(b.Node("MatMul", []string{v, as(b.Initializer("W", headW, h, c), elem)}), float), float, "n", c)
		model, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		m := open(t, rt, save(t, model), featurize.Options{})
		rows := ood.BlockOf([]int{2, 3}, noise(6))
		want, err := m.Network().Forward(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		checkNear(t, elem.String(), dropoutPasses(t, m, []int{2, 3}, rows.Tensors[0].Data, 0, 1, 0, 1), want.Logits.Data, 1e-3)
	}
}
