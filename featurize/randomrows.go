package featurize

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// trialShapes lists shapes of the inputs to try in a run, the most likely shapes first. The
// shapes differ only in dimensions that may vary. Shapes of more than maxProbe numbers are
// omitted. The result is nil if the shape of an input is unknown. If the batch may vary,
// two rows are tried before one row. If only one row then works, the exporter has fixed the
// batch inside the graph.
func (list inputs) trialShapes(g *onnx.Graph) [][][]int {
	batches := []int{2, 1}
	if b := list.fixedBatch(); b > 0 {
		batches = []int{b}
	}
	sizes := make([][]int, len(list))
	tries := 0
	for i, in := range list {
		if in.dims == nil {
			return nil
		}
		sizes[i] = in.trialSizes(g)
		tries = max(tries, len(sizes[i]))
	}
	var all [][][]int
	for try := range tries {
		// Axes with the same name must have the same size. The first input with such an
		// axis determines it.
		sizeByAxis := make(map[string]int)
		for i, in := range list {
			for axis := 1; axis < len(in.dims); axis++ {
				if in.axes[axis] != "" && sizeByAxis[in.axes[axis]] == 0 && in.dims[axis] < 0 {
					sizeByAxis[in.axes[axis]] = sizes[i][min(try, len(sizes[i])-1)]
				}
			}
		}
		for _, n := range batches {
			shapes := make([][]int, len(list))
			total := 0.
			for i, in := range list {
				if in.isOptional() {
					shapes[i] = in.defaultValue.Shape
					continue
				}
				shape := append([]int{n}, in.dims[1:]...)
				for axis := 1; axis < len(shape); axis++ {
					switch {
					case shape[axis] >= 0:
					case len(shape) == 4 && axis == 1 && in.layout() == "":
						shape[axis] = 3
					case in.axes[axis] != "":
						shape[axis] = sizeByAxis[in.axes[axis]]
					default:
						shape[axis] = sizes[i][min(try, len(sizes[i])-1)]
					}
				}
				shapes[i] = shape
				total += floatProduct(shape)
			}
			if total <= maxProbe {
				all = append(all, shapes)
			}
		}
	}
	return all
}

// trialSizes returns the sizes to try for the axes of the input that may vary. If no axis may
// vary, the result is a single unused size.
func (in input) trialSizes(g *onnx.Graph) []int {
	varies := false
	for _, d := range in.dims[min(1, len(in.dims)):] {
		varies = varies || d < 0
	}
	if !varies {
		return []int{0}
	}
	if len(in.dims) == 2 {
		if h := columnsNeeded(g, in.name); h > 0 {
			return []int{h}
		}
	}
	if _, _, integers := in.limits(); len(in.dims) < 4 && (integers || in.isMask()) {
		return []int{11, 8, 16, 224, 32, 299, 64}
	}
	return []int{224, 32, 299, 64, 16, 8}
}

// columnsNeeded returns the number of columns that a linear layer after the input requires, or
// 0 if there is no such layer.
func columnsNeeded(g *onnx.Graph, tensor string) int {
	for _, n := range g.Consumers(tensor) {
		s, ok := linearOps[n.GetOpType()]
		if !ok || s.weight >= len(n.GetInput()) {
			continue
		}
		if w, ok := g.Const(n.GetInput()[s.weight]); ok && len(w.GetDims()) == 2 {
			return int(w.GetDims()[onnx.AttributeInt(n, "transB", 0)&1])
		}
	}
	return 0
}

// randomRows returns random rows for each input without a default.
func (list inputs) randomRows(g *onnx.Graph, shapes [][]int) []ood.Tensor {
	tensors := make([]ood.Tensor, len(list))
	for i, in := range list {
		if !in.isOptional() {
			tensors[i] = in.randomTensor(g, shapes[i])
		}
	}
	return tensors
}

// randomTensor returns random rows that the model accepts. In a large tensor, the same 65,521
// numbers are repeated. This period is prime, so that rows or other slices do not become
// equal.
func (in input) randomTensor(g *onnx.Graph, shape []int) ood.Tensor {
	const period = 65521
	t := ood.Tensor{Name: in.name, Shape: shape}
	if in.takesText() {
		t.Strings = slices.Repeat([]string{acceptedText(g, in.name)}, product(shape))
		return t
	}
	rng := rand.New(rand.NewPCG(1, 2))
	_, hi, integers := in.limits()
	role := roleOf(in.name)
	data := make([]float32, product(shape))
	for i := range data[:min(period, len(data))] {
		switch {
		case role == tokenMask:
			data[i] = 1
		case role == tokenPositions:
			data[i] = float32(i % shape[len(shape)-1])
		case integers && role == tokenTypes:
			// Token types stay 0, because many networks know no other type.
		case integers && hi == 255:
			data[i] = float32(rng.IntN(256))
		case integers:
			data[i] = float32(rng.IntN(2))
		default:
			data[i] = float32(rng.NormFloat64())
		}
	}
	for filled := period; filled < len(data); filled *= 2 {
		copy(data[filled:], data[:filled])
	}
	t.Data = data
	return t
}

// acceptedText returns a text that the nodes after a tensor accept. The default is "0", which
// can also be parsed as a number.
func acceptedText(g *onnx.Graph, tensor string) string {
	for n := range readers(g, tensor, func(*pb.NodeProto) bool { return true }) {
		for _, a := range n.GetAttribute() {
			if slices.Contains([]string{"cats_strings", "keys_strings", "classes_strings"}, a.GetName()) && len(a.GetStrings()) > 0 {
				return string(a.GetStrings()[0])
			}
		}
	}
	return "0"
}

const (
	// maxProbe bounds the numbers in a run on random rows. It is enough for two volumes of
	// 4×200³. maxRun bounds the numbers in any run, and equals 4 GiB of float32.
	maxProbe = 1 << 26
	maxRun   = 1 << 30
)

// floatProduct returns the product of a shape as a float64, because untrusted dimensions
// could overflow an int. Dimensions that may vary count as 1.
func floatProduct(shape []int) float64 {
	n := 1.0
	for _, d := range shape {
		n *= float64(max(d, 1))
	}
	return n
}

// tryRun runs a session on random rows, with the first shapes that work. It returns the
// outputs, the number n of rows and the number of values in a row. If no shapes work, n is
// 0 and err is the first error. If the shapes of the inputs are unknown or too large, n is
// 0 and err is nil.
func (list inputs) tryRun(ctx context.Context, g *onnx.Graph, s *ort.Session) (out []*ort.Tensor, n, width int, err error) {
	for _, shapes := range list.trialShapes(g) {
		tensors := list.randomRows(g, shapes)
		n, width = 0, 0
		for _, t := range tensors {
			if t.Shape != nil {
				n, width = t.Shape[0], width+product(t.Shape[1:])
			}
		}
		x, runErr := list.newTensors(tensors)
		if runErr != nil {
			return nil, 0, 0, runErr
		}
		out, runErr := s.Run(ctx, x)
		closeAll(x)
		if runErr == nil {
			return out, n, width, nil
		}
		if ctx.Err() != nil {
			return nil, 0, 0, ctx.Err()
		}
		if err == nil {
			err = runErr
		}
	}
	return nil, 0, 0, err
}
