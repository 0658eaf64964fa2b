package featurize_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// bytesOf adds an 8-bit constant to a graph.
func bytesOf(b *onnx.Builder, kind pb.TensorProto_DataType, v []byte, dims ...int64) string {
	return b.Node("Constant", nil, onnx.Attr("value", &pb.TensorProto{DataType: proto.Int32(int32(kind)), Dims: dims, RawData: v}))
}

// TestQuantised checks the weights and logits of layers with 8-bit weights q, which
// represent scale·(q − 3). The weights must be exact, because the entries of headW are
// multiples of scale = 1/8.
func TestQuantised(t *testing.T) {
	rt := runtime(t)
	const scale = float32(.125)
	q := func(v []float32) []byte {
		out := make([]byte, len(v))
		for i := range v {
			out[i] = byte(int8(v[i]/scale) + 3)
		}
		return out
	}
	weight := func(b *onnx.Builder) (w, s, z string) {
		return bytesOf(b, pb.TensorProto_INT8, q(headWT), h, c), b.Const(scale), bytesOf(b, pb.TensorProto_INT8, []byte{3})
	}
	// φ is quantised in steps of 1/32. Outputs are quantised in steps of 1/4, and 128
	// represents 0.
	const phiScale, outScale = float32(1) / 32, float32(.25)
	quantise := func(b *onnx.Builder, phi string) (q, s, z string) {
		s, z = b.Const(phiScale), bytesOf(b, pb.TensorProto_UINT8, []byte{0})
		return b.Node("QuantizeLinear", []string{phi, s, z}), s, z
	}
	for name, k := range map[string]struct {
		head     func(b *onnx.Builder, phi string) string
		op       string
		noBias   bool
		tensor   string
		tol, phi float64
	}{
		"dynamic": {op: "MatMulInteger", tol: .02, head: func(b *onnx.Builder, phi string) string {
			w, s, z := weight(b)
			d := b.NodeN(3, "DynamicQuantizeLinear", []string{phi})
			y := b.Node("Cast", []string{b.Node("MatMulInteger", []string{d[0], w, d[2], z})}, onnx.Attr("to", float))
			return b.Node("Add", []string{b.Node("Mul", []string{y, b.Node("Mul", []string{d[1], s})}), b.Initializer("b", headB)})
		}},
		// ONNX Runtime also rounds φ to 8 bits here, which is only visible in a run.
		"weights alone": {op: "Gemm", tol: .01, head: func(b *onnx.Builder, phi string) string {
			w, s, z := weight(b)
			return b.Node("Gemm", []string{phi, b.Node("DequantizeLinear", []string{w, s, z}), b.Initializer("b", headB)})
		}},
		"quantise and dequantise": {op: "MatMul", tol: .15, phi: .05, noBias: true, tensor: "DequantizeLinear", head: func(b *onnx.Builder, phi string) string {
			p, ps, pz := quantise(b, phi)
			p = b.Node("DequantizeLinear", []string{p, ps, pz})
			w, s, z := weight(b)
			y := b.Node("MatMul", []string{p, b.Node("DequantizeLinear", []string{w, s, z})})
			os, oz := b.Const(outScale), bytesOf(b, pb.TensorProto_UINT8, []byte{128})
			return b.Node("DequantizeLinear", []string{b.Node("QuantizeLinear", []string{y, os, oz}), os, oz})
		}},
		"QLinearMatMul": {op: "QLinearMatMul", tol: .15, noBias: true, head: func(b *onnx.Builder, phi string) string {
			p, ps, pz := quantise(b, phi)
			w, s, z := weight(b)
			os, oz := b.Const(outScale), bytesOf(b, pb.TensorProto_UINT8, []byte{128})
			return b.Node("DequantizeLinear", []string{b.Node("QLinearMatMul", []string{p, ps, pz, w, s, z, os, oz}), os, oz})
		}},
		"QLinearMatMul behind integers": {op: "QLinearMatMul", tol: .15, phi: .05, noBias: true, tensor: "Identity", head: func(b *onnx.Builder, phi string) string {
			p, ps, pz := quantise(b, phi)
			p = b.Node("Identity", []string{p})
			w, s, z := weight(b)
			os, oz := b.Const(outScale), bytesOf(b, pb.TensorProto_UINT8, []byte{128})
			return b.Node("DequantizeLinear", []string{b.Node("QLinearMatMul", []string{p, ps, pz, w, s, z, os, oz}), os, oz})
		}},
		"QGemm": {op: "QGemm", tol: .15, head: func(b *onnx.Builder, phi string) string {
			b.Import("com.microsoft", 1)
			p, ps, pz := quantise(b, phi)
			w, s, z := weight(b)
			bias := b.Const([]int32{128, -256}) // headB in units of phiScale·scale = 1/32·1/8
			os, oz := b.Const(outScale), bytesOf(b, pb.TensorProto_UINT8, []byte{128})
			y := b.Append(onnx.Node{Op: "QGemm", Domain: "com.microsoft", Inputs: []string{p, ps, pz, w, s, z, bias, os, oz}})[0]
			return b.Node("DequantizeLinear", []string{y, os, oz})
		}},
		"DynamicQuantizeMatMul": {op: "DynamicQuantizeMatMul", tol: .02, head: func(b *onnx.Builder, phi string) string {
			b.Import("com.microsoft", 1)
			w, s, z := weight(b)
			return b.Append(onnx.Node{Op: "DynamicQuantizeMatMul", Domain: "com.microsoft", Inputs: []string{phi, w, s, z, b.Initializer("b", headB)}})[0]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := tiny(t, 13, func(b *onnx.Builder, x string) { addOutput(b, k.head(b, phiOf(b, x))) }, "n", 3)
			m := open(t, rt, path, featurize.Options{})
			i := m.Info()
			if k.tensor == "" {
				k.tensor = "Relu"
			}
			if i.Feature.Op != k.op || i.Feature.Tensor != k.tensor || i.Exact || i.ExactReason == "" {
				t.Errorf("found %+v, exact %v: %q", *i.Feature, i.Exact, i.ExactReason)
			}
			if m.Last() == nil {
				t.Fatalf("the weights are not known: %s", i.ExactReason)
			}
			bias := headB
			if k.noBias {
				bias = []float32{0, 0}
			}
			checkNear(t, "W", m.Last().Weight.Data, headW, 1e-6)
			for j, v := range bias {
				if m.Last().Bias[j] != v {
					t.Errorf("b is %v, want %v", m.Last().Bias, bias)
				}
			}
			x := noise(5 * 3)
			got := runAll(t, m, []int{5, 3}, x)
			checkNear(t, "φ", got.Features.Data, trunkOf(x), max(k.phi, 1e-6))
			checkNear(t, "logits", got.Logits.Data, affine(trunkOf(x), headW, bias, h), k.tol)
			checkNear(t, "logits against the model", got.Logits.Data, runUnedited(t, rt, path, i.Output, []int64{5, 3}, x), 1e-6)
		})
	}
}
