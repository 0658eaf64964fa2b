package featurize

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/ood"
)

// weights reads the layer's weight W (c×h) and bias b (c). Integers are dequantised. The
// affine nodes after the layer are included in W and b.
func (w *walk) weights(ctx context.Context, k *constants) (*ood.Linear, error) {
	op := w.layerNode.GetOpType()
	s := linearOps[op]
	input := func(i int) string {
		if i > 0 && i < len(w.layerNode.GetInput()) {
			return w.layerNode.GetInput()[i]
		}
		return ""
	}
	data, shape, err := k.value(ctx, input(s.weight))
	if err != nil {
		return nil, err
	}
	l, err := orient(op, data, shape, onnx.AttributeInt(w.layerNode, "transB", 0) != 0)
	if err != nil {
		return nil, err
	}
	zero, scale := input(s.weightZero), input(s.weightScale)
	if w.weightScale != "" {
		scale = w.weightScale
	}
	if err := dequantise(ctx, k, l, zero, scale); err != nil {
		return nil, err
	}
	if strings.Contains(op, "Gemm") || op == "FusedMatMul" {
		blas32.Scal(onnx.AttributeFloat(w.layerNode, "alpha", 1), asVector(l.Weight))
	}
	if name := input(s.bias); name != "" {
		if l.Bias, err = perClass(ctx, k, name, l.Weight.Rows); err != nil {
			return nil, err
		}
		switch op {
		case "Gemm", "FusedGemm":
			beta := onnx.AttributeFloat(w.layerNode, "beta", 1)
			blas32.Scal(beta, blas32.Vector{N: len(l.Bias), Inc: 1, Data: l.Bias})
		case "QLinearConv", "QGemm":
			// The integer bias is in units of the data's scale times the weight's scale.
			data, err := perClass(ctx, k, input(s.dataScale), l.Weight.Rows)
			if err != nil {
				return nil, err
			}
			weight, err := perClass(ctx, k, scale, l.Weight.Rows)
			if err != nil {
				return nil, err
			}
			for i := range l.Bias {
				l.Bias[i] *= data[i] * weight[i]
			}
		}
	}
	for i := len(w.steps) - 1; i >= 0; i-- {
		if err := w.steps[i].fold(ctx, k, l); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// orient returns a linear layer with the weight w as a c×h matrix. transposed reports
// whether w is c×h already.
func orient(op string, w []float32, shape []int64, transposed bool) (*ood.Linear, error) {
	dims := append([]int64(nil), shape...)
	if strings.Contains(op, "Conv") {
		for len(dims) > 2 && dims[len(dims)-1] == 1 {
			dims = dims[:len(dims)-1]
		}
		if len(dims) > 2 {
			return nil, fmt.Errorf("the last layer is a convolution with a kernel larger than 1×1: its weight has shape %v", shape)
		}
		transposed = true
	}
	for len(dims) > 2 && dims[0] == 1 {
		dims = dims[1:]
	}
	if len(dims) == 1 {
		dims = append(dims, 1) // a vector means one output
	}
	if len(dims) != 2 || len(w) == 0 {
		return nil, fmt.Errorf("the last layer's weight has shape %v, not that of a matrix", shape)
	}
	h, c := int(dims[0]), int(dims[1])
	if transposed {
		h, c = c, h
	} else {
		t := make([]float32, len(w))
		for i := range h {
			for j := range c {
				t[j*h+i] = w[i*c+j]
			}
		}
		w = t
	}
	return &ood.Linear{Weight: blas32.General{Rows: c, Cols: h, Stride: h, Data: w}, Bias: make([]float32, c)}, nil
}

// asVector returns all numbers of a matrix as a vector.
func asVector(m blas32.General) blas32.Vector {
	return blas32.Vector{N: len(m.Data), Inc: 1, Data: m.Data}
}

// dequantise subtracts the zero point from the integer weights and multiplies them by the
// scale. A missing constant is "".
func dequantise(ctx context.Context, k *constants, l *ood.Linear, zero, scale string) error {
	if zero != "" {
		z, err := perClass(ctx, k, zero, l.Weight.Rows)
		if err != nil {
			return err
		}
		for i := range l.Weight.Rows {
			for j, v := range rows.Row(l.Weight, i) {
				rows.Row(l.Weight, i)[j] = v - z[i]
			}
		}
	}
	if scale != "" {
		s, err := perClass(ctx, k, scale, l.Weight.Rows)
		if err != nil {
			return err
		}
		for i := range l.Weight.Rows {
			blas32.Scal(s[i], blas32.Vector{N: l.Weight.Cols, Inc: 1, Data: rows.Row(l.Weight, i)})
		}
	}
	return nil
}

// perClass returns a constant as c numbers, one for each class. A constant with a single
// number is repeated.
func perClass(ctx context.Context, k *constants, tensor string, c int) ([]float32, error) {
	v, shape, err := k.value(ctx, tensor)
	switch {
	case err != nil:
		return nil, err
	case len(v) == 1:
		return slices.Repeat(v, c), nil
	case len(v) != c:
		return nil, fmt.Errorf("constant %q of shape %v does not fit the %d outputs of the last layer", tensor, shape, c)
	}
	return v, nil
}

// fold includes an affine node after the layer in the layer's weights.
func (s affineStep) fold(ctx context.Context, k *constants, l *ood.Linear) error {
	c := l.Weight.Rows
	var scale, shift []float32 // nil means 1 and 0
	switch s.op {
	case "Neg":
		scale = slices.Repeat([]float32{-1}, c)
	case "BatchNormalization":
		var v [4][]float32
		for i := range v {
			var err error
			if v[i], err = perClass(ctx, k, s.node.GetInput()[1+i], c); err != nil {
				return err
			}
		}
		eps := onnx.AttributeFloat(s.node, "epsilon", 1e-5)
		scale, shift = make([]float32, c), make([]float32, c)
		for i := range c {
			scale[i] = float32(float64(v[0][i]) / math.Sqrt(float64(v[3][i]+eps)))
			shift[i] = v[1][i] - v[2][i]*scale[i]
		}
	default:
		v, err := perClass(ctx, k, s.operand, c)
		if err != nil {
			return err
		}
		switch {
		case s.op == "Mul":
			scale = v
		case s.op == "Div":
			scale = v
			for i := range v {
				scale[i] = 1 / v[i]
			}
		case s.op == "Sub" && !s.reversed:
			shift = v
			blas32.Scal(-1, blas32.Vector{N: c, Inc: 1, Data: shift})
		case s.op == "Sub":
			scale, shift = slices.Repeat([]float32{-1}, c), v
		default: // s.op is Add or Sum
			shift = v
		}
	}
	for i, f := range scale {
		blas32.Scal(f, blas32.Vector{N: l.Weight.Cols, Inc: 1, Data: rows.Row(l.Weight, i)})
		l.Bias[i] *= f
	}
	for i, v := range shift {
		l.Bias[i] += v
	}
	return nil
}
