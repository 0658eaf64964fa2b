package featurize_test

import (
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// scaled returns a copy of v in which each number is multiplied by f.
func scaled(v []float32, f float32) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = f * v[i]
	}
	return out
}

// TestDense checks the feature, the weights and the logits of models with a dense last
// layer, in many forms.
func TestDense(t *testing.T) {
	rt := runtime(t)
	row := headW[:h]
	matmul := func(b *onnx.Builder, phi string) string {
		return b.Node("MatMul", []string{phi, b.Initializer("W", headWT, h, c)})
	}
	add := func(b *onnx.Builder, y string) string { return b.Node("Add", []string{y, b.Initializer("b", headB)}) }
	for name, k := range map[string]struct {
		opset   int64
		head    func(b *onnx.Builder, phi string)
		w, b    []float32   // expected values of Last; nil means headW and headB
		task    attach.Task // "" means "unknown"
		norm    string
		inexact bool // whether Exact should be false
	}{
		"gemm":        {head: func(b *onnx.Builder, p string) { addOutput(b, gemm(b, p)) }},
		"gemm opset7": {opset: 7, head: func(b *onnx.Builder, p string) { addOutput(b, gemm(b, p)) }},
		"gemm opset24": {opset: 24, head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Softmax", []string{gemm(b, p)}))
		}, task: "classification", norm: "Softmax"},
		"gemm without transB, with alpha and beta": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Gemm", []string{p, b.Initializer("W", headWT, h, c), b.Initializer("b", headB)}, onnx.Attr("alpha", .5), onnx.Attr("beta", 3.0)))
		}, w: scaled(headW, .5), b: scaled(headB, 3)},
		"gemm with transB, alpha and a scalar bias": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Gemm", []string{p, b.Initializer("W", headW, c, h), b.Const(float32(2))}, onnx.Attr("transB", 1), onnx.Attr("alpha", 2.0)))
		}, w: scaled(headW, 2), b: []float32{2, 2}},
		"gemm without bias": {opset: 11, head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Gemm", []string{p, b.Initializer("W", headWT, h, c)}))
		}, b: []float32{0, 0}},
		"matmul":           {head: func(b *onnx.Builder, p string) { addOutput(b, matmul(b, p)) }, b: []float32{0, 0}},
		"matmul, then add": {head: func(b *onnx.Builder, p string) { addOutput(b, add(b, matmul(b, p))) }},
		"add with bias first": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Add", []string{b.Initializer("b", headB), matmul(b, p)}))
		}},
		"weights from nodes": {head: func(b *onnx.Builder, p string) {
			w := b.Node("Transpose", []string{b.Node("Cast", []string{b.Initializer("W", []float64{1, 2, -1, .5, -2, 1, .25, 1}, c, h)}, onnx.Attr("to", float))}, onnx.Attr("perm", []int64{1, 0}))
			bias := b.Node("Reshape", []string{b.Node("Constant", nil, onnx.Attr("value", onnx.Tensor(headB))), b.Const([]int64{1, c})})
			addOutput(b, b.Node("Add", []string{b.Node("MatMul", []string{p, w}), bias}))
		}},
		"softmax":    {head: func(b *onnx.Builder, p string) { addOutput(b, b.Node("Softmax", []string{gemm(b, p)})) }, task: "classification", norm: "Softmax"},
		"logsoftmax": {head: func(b *onnx.Builder, p string) { addOutput(b, b.Node("LogSoftmax", []string{gemm(b, p)})) }, task: "classification", norm: "LogSoftmax"},
		"sigmoid":    {head: func(b *onnx.Builder, p string) { addOutput(b, b.Node("Sigmoid", []string{gemm(b, p)})) }, task: "classification", norm: "Sigmoid"},
		"log of softmax": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Log", []string{b.Node("Softmax", []string{gemm(b, p)})}))
		}, task: "classification", norm: "Softmax"},
		"temperature, then softmax": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Softmax", []string{b.Node("Div", []string{gemm(b, p), b.Const(float32(2))})}))
		}, w: scaled(headW, .5), b: scaled(headB, .5), task: "classification", norm: "Softmax"},
		"a computed temperature": {opset: 11, head: func(b *onnx.Builder, p string) {
			two := b.Node("Cast", []string{b.Const(int64(2))}, onnx.Attr("to", float))
			addOutput(b, b.Node("Div", []string{gemm(b, p), two}))
		}, w: scaled(headW, .5), b: scaled(headB, .5)},
		"identity, dropout and casts": {head: func(b *onnx.Builder, p string) {
			y := b.Node("Cast", []string{b.Node("Identity", []string{b.Node("Dropout", []string{gemm(b, p)})})}, onnx.Attr("to", pb.TensorProto_DOUBLE))
			b.Output(y, pb.TensorProto_DOUBLE, "n", c)
		}},
		"one target, reshaped to a vector": {head: func(b *onnx.Builder, p string) {
			y := b.Node("Gemm", []string{p, b.Initializer("W", row, h, 1), b.Initializer("b", []float32{2})})
			addOutput(b, b.Node("Reshape", []string{y, b.Const([]int64{-1})}), "n")
		}, w: row, b: []float32{2}, task: "regression"},
		"one target, squeezed": {head: func(b *onnx.Builder, p string) {
			y := b.Node("Gemm", []string{p, b.Initializer("W", row, h, 1), b.Initializer("b", []float32{2})})
			addOutput(b, b.Node("Squeeze", []string{y, b.Const([]int64{1})}), "n")
		}, w: row, b: []float32{2}, task: "regression"},
		"one target, from a vector": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("MatMul", []string{p, b.Initializer("W", row)}), "n")
		}, w: row, b: []float32{0}, task: "regression"},
		"one class, then sigmoid": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Sigmoid", []string{b.Node("MatMul", []string{p, b.Initializer("W", row, h, 1)})}), "n", 1)
		}, w: row, b: []float32{0}, task: "classification", norm: "Sigmoid"},
		"standardised targets": {head: func(b *onnx.Builder, p string) {
			y := b.Node("Add", []string{b.Node("Mul", []string{gemm(b, p), b.Const([]float32{2, 3})}), b.Const([]float32{10, 20})})
			addOutput(b, b.Node("Sub", []string{y, b.Const(float32(1))}))
		}, w: []float32{2, 4, -2, 1, -6, 3, .75, 3}, b: []float32{10, 16}},
		"constant minus logits": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Neg", []string{b.Node("Sub", []string{b.Const([]float32{1, 2}), gemm(b, p)})}))
		}, b: []float32{-.5, -3}},
		"batch norm behind": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("BatchNormalization", []string{gemm(b, p), b.Const([]float32{2, 1}), b.Const([]float32{0, 5}), b.Const([]float32{1, 0}), b.Const([]float32{4, 1})}, onnx.Attr("epsilon", 0.0)))
		}, w: []float32{1, 2, -1, .5, -2, 1, .25, 1}, b: []float32{-.5, 4}},
		"activation behind": {head: func(b *onnx.Builder, p string) {
			addOutput(b, b.Node("Relu", []string{gemm(b, p)}))
		}, inexact: true},
		"labels as first output": {head: func(b *onnx.Builder, p string) {
			y := gemm(b, p)
			b.Output(b.Node("ArgMax", []string{y}, onnx.Attr("axis", 1), onnx.Attr("keepdims", 0)), pb.TensorProto_INT64, "n")
			addOutput(b, b.Node("Softmax", []string{y}))
		}, task: "classification", norm: "Softmax"},
	} {
		t.Run(name, func(t *testing.T) {
			if k.opset == 0 {
				k.opset = 13
			}
			if k.w == nil {
				k.w = headW
			}
			if k.b == nil {
				k.b = headB
			}
			if k.task == "" {
				k.task = "unknown"
			}
			path := tiny(t, k.opset, func(b *onnx.Builder, x string) { k.head(b, phiOf(b, x)) }, "n", 3)
			m := open(t, rt, path, featurize.Options{Batch: 2, Task: attach.Classification}) // so that a regressor of a table reads its last layer too
			i := m.Info()
			if i.Feature.Tensor != "Relu" || i.Feature.Width != h || i.OutputsWidth != len(k.b) || i.Task != k.task || i.Normaliser != k.norm {
				t.Errorf("found %+v, task %s, %d outputs, normaliser %q", *i.Feature, i.Task, i.OutputsWidth, i.Normaliser)
			}
			if i.Exact == k.inexact || i.Exact != (i.ExactReason == "") {
				t.Errorf("exact %v: %q", i.Exact, i.ExactReason)
			}
			checkNear(t, "W", m.Last().Weight.Data, k.w, 1e-6)
			for j, v := range k.b {
				if d := m.Last().Bias[j] - v; d > 1e-6 || d < -1e-6 {
					t.Errorf("b is %v, want %v", m.Last().Bias, k.b)
				}
			}
			x := noise(5 * 3)
			got := runAll(t, m, []int{5, 3}, x)
			checkNear(t, "φ", got.Features.Data, trunkOf(x), 1e-6)
			want := affine(trunkOf(x), k.w, k.b, h)
			if k.inexact {
				for j := range want {
					want[j] = max(0, want[j])
				}
			}
			checkNear(t, "logits", got.Logits.Data, want, 1e-5)
		})
	}
}

// TestLinearModel checks that the feature of a model that is linear in its input is the
// input itself.
func TestLinearModel(t *testing.T) {
	w := headW[:3]
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		addOutput(b, b.Node("MatMul", []string{x, b.Initializer("W", w, 3, 1)}), "n", 1)
	}, "n", 3)
	m := open(t, runtime(t), path, featurize.Options{Task: attach.Classification})
	if i := m.Info(); i.Feature.Tensor != "x" || !i.Exact {
		t.Errorf("found %+v, exact %v (%s)", i.Feature, i.Exact, i.ExactReason)
	}
	x := noise(6)
	got := runAll(t, m, []int{2, 3}, x)
	checkNear(t, "φ", got.Features.Data, x, 0)
	checkNear(t, "logits", got.Logits.Data, affine(x, w, []float32{0}, 3), 1e-6)
}

// TestOpsets checks that models of all operator sets from 7 to 26 open and give the same
// features.
func TestOpsets(t *testing.T) {
	rt := runtime(t)
	for opset := int64(7); opset <= 26; opset++ {
		path := tiny(t, opset, func(b *onnx.Builder, x string) {
			addOutput(b, b.Node("Softmax", []string{b.Node("Flatten", []string{gemm(b, phiOf(b, x))})}))
		}, "n", 3)
		m := open(t, rt, path, featurize.Options{})
		x := noise(9)
		checkNear(t, "φ", runAll(t, m, []int{3, 3}, x).Features.Data, trunkOf(x), 1e-6)
		if !m.Info().Exact || m.Info().Opset != opset {
			t.Errorf("opset %d: exact %v (%s)", m.Info().Opset, m.Info().Exact, m.Info().ExactReason)
		}
	}
}
