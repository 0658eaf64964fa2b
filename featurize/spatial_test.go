package featurize_test

import (
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
)

// planeMeans returns the mean of each plane in v. Each plane has the given number of elements.
func planeMeans(v []float32, size int) []float32 {
	var m []float32
	for ; len(v) > 0; v = v[size:] {
		var s float64
		for _, x := range v[:size] {
			s += float64(x)
		}
		m = append(m, float32(s/float64(size)))
	}
	return m
}

// relu returns max(0, x) for each number x in v.
func relu(v []float32) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = max(0, v[i])
	}
	return out
}

// TestConvolution checks models that end in a 1×1 convolution. The input x is n×4×3×5, and
// φ is the mean of relu(x) over space.
func TestConvolution(t *testing.T) {
	rt := runtime(t)
	conv := func(b *onnx.Builder, x string, pad int64) string {
		return b.Node("Conv", []string{x, b.Initializer("W", headW, c, h, 1, 1), b.Initializer("b", headB)},
			onnx.Attr("kernel_shape", []int64{1, 1}), onnx.Attr("pads", []int64{pad, pad, pad, pad}))
	}
	flatten := func(b *onnx.Builder, y string) string { return b.Node("Flatten", []string{y}) }
	pool := func(b *onnx.Builder, y string) string { return b.Node("GlobalAveragePool", []string{y}) }
	for name, k := range map[string]struct {
		head      func(b *onnx.Builder, x string)
		exact     bool
		nonAffine bool // whether the logits are not affine in φ
	}{
		"conv, pool": {exact: true, head: func(b *onnx.Builder, x string) { addOutput(b, flatten(b, pool(b, conv(b, x, 0)))) }},
		"pool, conv": {exact: true, head: func(b *onnx.Builder, x string) { addOutput(b, flatten(b, conv(b, pool(b, x), 0))) }},
		"conv, mean": {exact: true, head: func(b *onnx.Builder, x string) {
			addOutput(b, b.Node("ReduceMean", []string{conv(b, x, 0)}, onnx.Attr("axes", []int64{2, 3}), onnx.Attr("keepdims", 0)))
		}},
		"conv without bias, then add": {exact: true, head: func(b *onnx.Builder, x string) {
			y := b.Node("Conv", []string{x, b.Initializer("W", headW, c, h, 1, 1)})
			y = b.Node("Add", []string{y, b.Const(headB, c, 1, 1)})
			addOutput(b, flatten(b, b.Node("AveragePool", []string{y}, onnx.Attr("kernel_shape", []int64{3, 5}))))
		}},
		"conv, pool, softmax": {exact: true, head: func(b *onnx.Builder, x string) {
			addOutput(b, b.Node("Softmax", []string{flatten(b, pool(b, conv(b, x, 0)))}))
		}},
		"conv, relu, pool": {nonAffine: true, head: func(b *onnx.Builder, x string) {
			addOutput(b, flatten(b, pool(b, b.Node("Relu", []string{conv(b, x, 0)}))))
		}},
		"padded conv, pool": {nonAffine: true, head: func(b *onnx.Builder, x string) { addOutput(b, flatten(b, pool(b, conv(b, x, 1)))) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := tiny(t, 13, func(b *onnx.Builder, x string) { k.head(b, b.Node("Relu", []string{x})) }, "n", h, 3, 5)
			m := open(t, rt, path, featurize.Options{})
			i := m.Info()
			if i.Exact != k.exact || i.Exact != (i.ExactReason == "") {
				t.Errorf("exact %v: %q", i.Exact, i.ExactReason)
			}
			if i.Feature.Op != "Conv" || i.Feature.Width != h || i.OutputsWidth != c {
				t.Errorf("found %+v with %d outputs", *i.Feature, i.OutputsWidth)
			}
			checkNear(t, "W", m.Last().Weight.Data, headW, 0)
			checkNear(t, "b", m.Last().Bias, headB, 0)
			x := noise(3 * h * 15)
			got := runAll(t, m, []int{3, h, 3, 5}, x)
			phi := planeMeans(relu(x), 15)
			checkNear(t, "φ", got.Features.Data, phi, 1e-6)
			if !k.nonAffine {
				checkNear(t, "logits", got.Logits.Data, affine(phi, headW, headB, h), 1e-5)
			}
			s := runUnedited(t, rt, path, m.Info().Output, []int64{3, h, 3, 5}, x)
			if m.Info().Normaliser == "" {
				checkNear(t, "logits against the model", got.Logits.Data, s, 1e-6)
			}
		})
	}
}

// TestFreeSize checks that models of images of any size run at the size of the given rows.
func TestFreeSize(t *testing.T) {
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		y := b.Node("Conv", []string{x, b.Initializer("stem", headWT, 4, 2, 1, 1)})
		addOutput(b, gemm(b, b.Node("Flatten", []string{b.Node("GlobalAveragePool", []string{y})})))
	}, "n", 2, "height", "width")
	m := open(t, runtime(t), path, featurize.Options{})
	if i := m.Info(); i.Feature.Width != h || !i.Exact || i.Inputs[0].Shape[2] != -1 {
		t.Errorf("found %+v, exact %v (%s), inputs %v", i.Feature, i.Exact, i.ExactReason, i.Inputs)
	}
	for _, size := range [][]int{{2, 2, 7, 9}, {1, 2, 1, 1}} {
		x := noise(size[0] * 2 * size[2] * size[3])
		got := runAll(t, m, size, x)
		want := affine(planeMeans(x, size[2]*size[3]), headWT, make([]float32, h), 2)
		checkNear(t, "φ", got.Features.Data, want, 1e-5)
	}
}

// TestTokens checks a last layer that acts on each token, if the results are then averaged
// or there is only one token.
func TestTokens(t *testing.T) {
	rt := runtime(t)
	add := func(b *onnx.Builder, x string) string {
		return b.Node("Add", []string{b.Node("MatMul", []string{x, b.Initializer("W", headWT, h, c)}), b.Initializer("b", headB)})
	}
	x := noise(2 * 3 * h)
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		addOutput(b, b.Node("ReduceMean", []string{add(b, b.Node("Relu", []string{x}))}, onnx.Attr("axes", []int64{1}), onnx.Attr("keepdims", 0)))
	}, "n", 3, h)
	m := open(t, rt, path, featurize.Options{})
	var phi []float32
	for r := range 2 {
		for j := range h {
			v := relu(x[r*3*h:])
			phi = append(phi, (v[j]+v[h+j]+v[2*h+j])/3)
		}
	}
	got := runAll(t, m, []int{2, 3, h}, x)
	checkNear(t, "mean φ", got.Features.Data, phi, 1e-6)
	checkNear(t, "logits", got.Logits.Data, affine(phi, headW, headB, h), 1e-5)
	if !m.Info().Exact {
		t.Error(m.Info().ExactReason)
	}

	path = tiny(t, 13, func(b *onnx.Builder, x string) {
		addOutput(b, b.Node("Squeeze", []string{add(b, b.Node("Relu", []string{x})), b.Const([]int64{1})}))
	}, "n", 1, h)
	m = open(t, rt, path, featurize.Options{})
	got = runAll(t, m, []int{6, 1, h}, x)
	checkNear(t, "φ of one token", got.Features.Data, relu(x), 0)
	if !m.Info().Exact {
		t.Error(m.Info().ExactReason)
	}
}
