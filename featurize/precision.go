package featurize

import (
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/double"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
)

// Precision is that of the numbers that a network is computed with.
type Precision int

const (
	// Float32 is single precision, or what the model itself says.
	Float32 Precision = iota
	// Float64 is double precision, from the inputs on, which are float32
	// numbers. Weights are those of the file, whatever their precision.
	Float64
)

// ErrPrecision is wrapped by the error for a network that cannot be computed
// in double precision, which names the operator and its node.
var ErrPrecision = errors.New("the network cannot be computed in double precision, float32 is what there is")

func narrowOnly(err error) error { return fmt.Errorf("%w: %w", ErrPrecision, err) }

// widen makes the graph double.
func (k *kind) widen() error {
	var need []string
	for _, v := range k.views {
		need = append(need, v.tensor, v.scale, v.zero)
	}
	m := part(k.g, nil, &pb.GraphProto{Input: k.g.Inputs()}, need...)
	if err := double.Promote(m, k.dir); err != nil {
		return narrowOnly(err)
	}
	k.g = onnx.Extend(m).Index()
	k.input.wide = true
	switch pb.TensorProto_DataType(k.input.elem) {
	case pb.TensorProto_FLOAT, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16:
		k.input.elem = int32(pb.TensorProto_DOUBLE)
	}
	return nil
}

// tensorOf is a tensor of the numbers in the gradient's precision.
func (key gradientKey) tensorOf(shape []int, data []float32) (*ort.Tensor, error) {
	if !key.wide {
		return wrap(shape, data)
	}
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	wide := make([]float64, len(data))
	for i, v := range data {
		wide[i] = float64(v)
	}
	return ort.NewTensor(dims, wide)
}
