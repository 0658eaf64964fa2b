package featurize

import (
	"context"
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
)

// shapes lists input shapes to try on a model, the likeliest first, for its
// dimensions that vary. Where the batch varies, two rows are tried before one:
// some exporters freeze the batch inside the graph.
func (in input) shapes(g *onnx.Graph) [][]int {
	if in.dims == nil {
		return nil
	}
	batches := []int{2, 1}
	if b := in.fixedBatch(); b > 0 {
		batches = []int{b}
	}
	free := false
	for _, d := range in.dims[1:] {
		free = free || d < 0
	}
	sizes := []int{0}
	if free {
		sizes = []int{224, 32, 299, 64, 16, 8}
		if len(in.dims) == 2 {
			if h := firstWidth(g, in.name); h > 0 {
				sizes = []int{h}
			}
		}
	}
	var list [][]int
	for _, size := range sizes {
		for _, n := range batches {
			shape := append([]int{n}, in.dims[1:]...)
			for i := 1; i < len(shape); i++ {
				switch {
				case shape[i] >= 0:
				case len(shape) == 4 && i == 1 && in.layout() == "":
					shape[i] = 3
				default:
					shape[i] = size
				}
			}
			if size := floatProduct(shape); size <= maxProbe {
				list = append(list, shape)
			}
		}
	}
	return list
}

// firstWidth returns the number of columns that a layer reading the input
// needs, or 0.
func firstWidth(g *onnx.Graph, tensor string) int {
	for _, n := range g.Consumers(tensor) {
		s, ok := slots[n.GetOpType()]
		if !ok || s.weight >= len(n.GetInput()) {
			continue
		}
		if w, ok := g.Const(n.GetInput()[s.weight]); ok && len(w.GetDims()) == 2 {
			return int(w.GetDims()[onnx.AttributeInt(n, "transB", 0)&1])
		}
	}
	return 0
}

// random returns rows that a model of the given element type accepts. Large
// ones repeat, at a prime distance that no axis is a multiple of.
func (in input) random(shape []int) []float32 {
	const period = 65521
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]float32, product(shape))
	for i := range data[:min(period, len(data))] {
		switch pb.TensorProto_DataType(in.elem) {
		case pb.TensorProto_UINT8:
			data[i] = float32(rng.IntN(256))
		case pb.TensorProto_INT8, pb.TensorProto_INT32, pb.TensorProto_INT64:
			data[i] = float32(rng.IntN(2))
		default:
			data[i] = float32(rng.NormFloat64())
		}
	}
	for done := period; done < len(data); done *= 2 {
		copy(data[done:], data[:done])
	}
	return data
}

// Bounds of the numbers in one run of a network: maxProbe of random rows, as
// many as two volumes of 4×200³ hold, and maxRun, 4 GiB, of any.
const (
	maxProbe = 1 << 26
	maxRun   = 1 << 30
)

// floatProduct is product where the dimensions are somebody's claim; those that
// vary count as 1.
func floatProduct(shape []int) float64 {
	n := 1.0
	for _, d := range shape {
		n *= float64(max(d, 1))
	}
	return n
}

// try runs a session on random rows, with the first shape that works. A nil
// shape means that none did; the error is then that of the first, or nil
// where nothing is known about the input.
func (in input) try(ctx context.Context, g *onnx.Graph, s *ort.Session) (out []*ort.Tensor, shape []int, err error) {
	for _, shape := range in.shapes(g) {
		x, fail := wrap(shape, in.random(shape))
		if fail != nil {
			return nil, nil, fail
		}
		out, fail := s.Run(ctx, []*ort.Tensor{x})
		x.Close()
		if fail == nil {
			return out, shape, nil
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err == nil {
			err = fail
		}
	}
	return nil, nil, err
}
