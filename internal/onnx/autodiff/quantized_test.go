package autodiff

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// quantizedCase is a quantized model, and a floating-point model that must have the same
// gradient under the straight-through estimator.
type quantizedCase struct {
	name      string
	x         []int64
	low, high float32 // range of x that the integers represent; elements outside have gradient 0
	build     func(b *onnx.Builder, x string) string
	real      func(b *onnx.Builder, x string) string
	allInside bool // whether all elements of x are in the range
}

var (
	castConst = func(b *onnx.Builder, v []int64, t pb.TensorProto_DataType, dims ...int64) string {
		return b.Node("Cast", []string{b.Const(v, dims...)}, onnx.Attr("to", t))
	}
	kernelBytes = ints(3, -1, 4, 1, -5, 9, 2, -6, 5, 3, 5, -8, 9, 7, -9, 3)
	toFloat     = onnx.Attr("to", pb.TensorProto_FLOAT)
)

// scaledKernel returns (kernelBytes − zero)·scale as floats.
func scaledKernel(zero, scale float32) []float32 {
	v := make([]float32, len(kernelBytes))
	for i, k := range kernelBytes {
		v[i] = (float32(k) - zero) * scale
	}
	return v
}

func zeroPoint(b *onnx.Builder, v int64, t pb.TensorProto_DataType) string {
	return b.Node("Cast", []string{b.Node("Squeeze", []string{b.Const(ints(v))})}, onnx.Attr("to", t))
}

const uint8Type, int8Type = pb.TensorProto_UINT8, pb.TensorProto_INT8

var quantizedCases = []quantizedCase{
	{name: "quantize and back", x: ints(3, 4), low: -0.5, high: 1.03, build: func(b *onnx.Builder, x string) string {
		scale, zero := b.Const(float32(0.006)), zeroPoint(b, 83, uint8Type)
		q := b.Node("QuantizeLinear", []string{x, scale, zero})
		q = b.Node("Transpose", []string{b.Node("Reshape", []string{q, b.Const(ints(2, 6))})})
		return b.Node("DequantizeLinear", []string{q, scale, zero})
	}, real: func(b *onnx.Builder, x string) string {
		return b.Node("Transpose", []string{b.Node("Reshape", []string{x, b.Const(ints(2, 6))})})
	}},
	{name: "quantize each channel", x: ints(2, 2, 3), allInside: true, build: func(b *onnx.Builder, x string) string {
		scale, zero := b.Const([]float32{0.02, 0.05}), castConst(b, ints(1, 2), int8Type)
		axis := onnx.Attr("axis", 1)
		return b.Node("DequantizeLinear", []string{b.Node("QuantizeLinear", []string{x, scale, zero}, axis), scale, zero}, axis)
	}, real: func(b *onnx.Builder, x string) string { return b.Node("Identity", []string{x}) }},
	{name: "dynamic matrix product", x: ints(3, 4), allInside: true, build: func(b *onnx.Builder, x string) string {
		q := b.NodeN(3, "DynamicQuantizeLinear", []string{x})
		w := castConst(b, kernelBytes, int8Type, 4, 4)
		y := b.Node("MatMulInteger", []string{q[0], w, q[2], zeroPoint(b, 2, int8Type)})
		y = b.Node("Cast", []string{y}, toFloat)
		return b.Node("Mul", []string{y, b.Node("Mul", []string{q[1], b.Const(float32(0.1))})})
	}, real: func(b *onnx.Builder, x string) string {
		return b.Node("MatMul", []string{x, b.Const(scaledKernel(2, 0.1), 4, 4)})
	}},
	{name: "dynamic convolution", x: ints(1, 2, 4, 3), allInside: true, build: func(b *onnx.Builder, x string) string {
		q := b.NodeN(3, "DynamicQuantizeLinear", []string{x})
		w := castConst(b, kernelBytes, uint8Type, 2, 2, 2, 2)
		y := b.Node("ConvInteger", []string{q[0], w, q[2], zeroPoint(b, 3, uint8Type)}, onnx.Attr("pads", ints(1, 0, 1, 1)))
		y = b.Node("Cast", []string{y}, toFloat)
		return b.Node("Mul", []string{y, b.Node("Mul", []string{q[1], b.Const(float32(0.1))})})
	}, real: func(b *onnx.Builder, x string) string {
		w := scaledKernel(3, 0.1)
		for i, k := range kernelBytes { // the model casts kernelBytes to uint8
			w[i] = (float32(uint8(k)) - 3) * 0.1
		}
		return b.Node("Conv", []string{x, b.Const(w, 2, 2, 2, 2)}, onnx.Attr("pads", ints(1, 0, 1, 1)))
	}},
}

// TestQuantized compares the gradients of quantized models with the gradients of equivalent
// floating-point models.
func TestQuantized(t *testing.T) {
	rt := orttest.Open(t)
	for _, c := range quantizedCases {
		for mode, dims := range shapeModes {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				v := make([]float32, size(c.x))
				for i := range v {
					v[i] = float32(2 * math.Sin(float64(3*i)))
				}
				gradient := func(build func(*onnx.Builder, string) string) []float32 {
					b := onnx.NewBuilder("case", 17)
					x := b.Input("x", pb.TensorProto_FLOAT, dims(0, c.x)...)
					y := build(b, x)
					// Weight y with a constant wave, so that the upstream gradient varies
					// but does not depend on y.
					wave := b.Node("Cos", []string{b.Node("Cast", []string{rangeLike(b, y)}, toFloat)})
					g, err := Gradient(b, "", []Seed{{Output: b.Node("Mul", []string{y, wave})}}, []string{x})
					if err != nil {
						t.Fatal(err)
					}
					in, _ := ort.NewTensor(c.x, v)
					return runModel(t, rt, modelWithOutputs(t, b, g), []*ort.Tensor{in})[0].Float32s()
				}
				got, want := gradient(c.build), gradient(c.real)
				for i, w := range want {
					if !c.allInside && (v[i] < c.low || v[i] > c.high) {
						w = 0
					}
					if math.Abs(float64(got[i]-w)) > 1e-4*(1+math.Abs(float64(w))) {
						t.Errorf("derivative by x[%d] = %v is %v, in real numbers %v", i, v[i], got[i], w)
					}
				}
			})
		}
	}
}

// TestQuantizedErrors checks that the error names the node if the rule of its operator does
// not support quantized numbers.
func TestQuantizedErrors(t *testing.T) {
	b := onnx.NewBuilder("g", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, 1, 2, 4, 4)
	scale := b.Const(float32(0.1))
	q := b.Node("QuantizeLinear", []string{x, scale})
	pool := b.Append(onnx.Node{Op: "MaxPool", Name: "pool3", Inputs: []string{q},
		Attrs: []*pb.AttributeProto{onnx.Attr("kernel_shape", ints(2, 2))}})[0]
	y := b.Node("DequantizeLinear", []string{pool, scale})
	_, err := Gradient(b, "", []Seed{{Output: y}}, []string{x})
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.Node != "node/pool3" || !strings.Contains(unsupported.Reason, "quantized") {
		t.Errorf("error %v, want one that names pool3", err)
	}
}
