package featurize

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// probeResult holds the results of a run on random rows.
type probeResult struct {
	info      Info
	lastLayer *ood.Linear // nil if the weights are unknown or the layer does not read the feature
	batchSize int         // largest number of rows in one run
}

// probe runs a session on random rows. It determines the widths of the views and whether
// the batch may vary, and compares Wφ+b with the logits. info holds what is known before
// the run. batch is the number of rows that the caller chose, or 0.
func (s modelBuilder) probe(ctx context.Context, session *ort.Session, l location, info Info, batch int) (probeResult, error) {
	p := probeResult{info: info, lastLayer: l.lastLayer, batchSize: batch}
	if info.FixedBatch > 0 {
		p.batchSize = info.FixedBatch
	}
	out, n, width, err := s.inputs.tryRun(ctx, s.graph, session)
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	if n == 0 {
		return s.unverified(l, p, err)
	}
	defer closeAll(out)
	if n == 1 && info.FixedBatch == 0 {
		p.batchSize, p.info.FixedBatch = 1, 1
	}
	if p.batchSize <= 0 {
		p.batchSize = defaultBatch(width)
	}
	phi, err := asRows(out[0], n)
	if err != nil {
		return p, fmt.Errorf("feature %q has %w", info.Feature.Tensor, err)
	}
	logits, err := asRows(out[1], n)
	if err != nil {
		return p, fmt.Errorf("output %q has %w", info.Output, err)
	}
	if l.logits == "" {
		logits.Cols = 0
	}
	p.info.Feature.Width, p.info.OutputsWidth = phi.Cols, logits.Cols
	for i, t := range out[2:] {
		layer, err := asRows(t, n)
		if err != nil {
			return p, &batchparts.LayerError{Err: fmt.Errorf("layer %q has %w", info.Layers[i].Tensor, err)}
		}
		p.info.Layers[i].Width = layer.Cols
	}
	if logits.Cols != len(p.info.Classes) && (logits.Cols != 1 || len(p.info.Classes) != 2) {
		p.info.Classes, p.info.ClassNumbers = nil, nil
	}
	if l.lastLayer != nil && (l.lastLayer.Weight.Cols != phi.Cols || l.lastLayer.Weight.Rows != logits.Cols) {
		if !l.isNamed {
			return p, &NoLinearLayerError{Reason: fmt.Sprintf("%s maps %d features to %d outputs at each of several positions of an input, and gives %d numbers a row",
				describe(s.graph, l.layerNode), l.lastLayer.Weight.Cols, l.lastLayer.Weight.Rows, logits.Cols)}
		}
		p.lastLayer = nil
	}
	p.info.Task = cmp.Or(l.task, guessTask(l.normaliser, logits.Cols))
	return s.checkExact(l, p, phi, logits), nil
}

// checkExact sets Exact, ExactReason and ExactError of p.info. If the last layer does not
// read a feature that the caller named, checkExact removes p.lastLayer. phi and logits come
// from a run on random rows.
func (s modelBuilder) checkExact(l location, p probeResult, phi, logits blas32.General) probeResult {
	if p.lastLayer == nil {
		p.info.ExactReason = strings.Join(l.reasons, "; ")
		if l.isNamed {
			p.info.ExactReason = "the feature was named, not found"
		}
		return p
	}
	e := residual(p.lastLayer, phi, logits)
	elem := int32(pb.TensorProto_FLOAT)
	if w, ok := s.graph.Const(l.layerNode.GetInput()[linearOps[l.layerNode.GetOpType()].weight]); ok {
		elem = w.GetDataType()
	}
	exact := e <= tolerance(elem)
	if rows.Finite(e) {
		p.info.ExactError = &e
	}
	switch {
	case l.isNamed && !exact:
		p.lastLayer, p.info.ExactError = nil, nil
		p.info.ExactReason = "the feature that was named is not the input of the last linear layer"
	case len(l.reasons) > 0:
		p.info.ExactReason = strings.Join(l.reasons, "; ")
	case !exact:
		p.info.ExactReason = fmt.Sprintf("on random inputs Wφ+b differs from the logits by %.2g of their norm", e)
	default:
		p.info.Exact = true
	}
	return p
}

// unverified describes a model that could not run on random inputs, because the shape of
// its inputs is unknown or too large. If the shapes are known and a run failed with err,
// unverified returns an error instead.
func (s modelBuilder) unverified(l location, p probeResult, err error) (probeResult, error) {
	reason := "the shape of its inputs is not known"
	known, width := true, 0.
	var shapes []string
	for _, in := range s.inputs {
		row := in.dims[min(1, len(in.dims)):]
		known = known && in.dims != nil && !slices.Contains(row, -1)
		width += floatProduct(row)
		shapes = append(shapes, formatShape(in.dims))
	}
	if known {
		if err != nil {
			return p, fmt.Errorf("the runtime cannot run the model: %w", err)
		}
		reason = fmt.Sprintf("inputs of %s are too large for a test run", strings.Join(shapes, ", "))
	}
	if p.batchSize <= 0 {
		p.batchSize = defaultBatch(int(width))
	}
	if p.lastLayer != nil {
		p.info.Feature.Width, p.info.OutputsWidth = p.lastLayer.Weight.Cols, p.lastLayer.Weight.Rows
		p.info.Task = cmp.Or(l.task, guessTask(l.normaliser, p.lastLayer.Weight.Rows))
	}
	p.info.ExactReason = "not verified: " + reason
	return p, nil
}

// defaultBatch returns the largest number of rows in one run if neither the caller nor the
// model sets it: 64, or fewer if 64 rows would take more than 64 MiB. width is the number
// of float32 numbers in a row.
func defaultBatch(width int) int {
	return max(1, min(64, (16<<20)/max(1, width)))
}

// residual returns ‖Wφ+b − logits‖/‖logits‖ in the Frobenius norm, or ‖Wφ+b‖ if all logits
// are 0.
func residual(l *ood.Linear, phi, logits blas32.General) float64 {
	y := rows.Linear(phi, l.Weight, l.Bias)
	var num, den float64
	for i, v := range y.Data {
		d := float64(v) - float64(logits.Data[i])
		num += d * d
		den += float64(logits.Data[i]) * float64(logits.Data[i])
	}
	if den == 0 {
		return math.Sqrt(num)
	}
	return math.Sqrt(num / den)
}

// tolerance returns the largest relative error that rounding can cause in a layer with
// weights of this element type.
func tolerance(elem int32) float64 {
	switch pb.TensorProto_DataType(elem) {
	case pb.TensorProto_FLOAT16:
		return 5e-3
	case pb.TensorProto_BFLOAT16:
		return 3e-2
	}
	return 1e-4
}

// maxProbed bounds the number of tensors in one probeShapes run. The bound is needed
// because the time to load a graph grows faster than its number of outputs.
const maxProbed = 1000

// probeShapes returns the shapes of tensors in a run on random inputs. If a tensor has one
// row for each input row and the batch may vary, the size of its first axis is −1. The
// result is nil if the model cannot run on random inputs.
func (s modelBuilder) probeShapes(ctx context.Context, tensors []string) (map[string][]int64, error) {
	if len(tensors) == 0 {
		return nil, nil
	}
	infos, casts := s.inputs.declare(s.graph)
	// The shape of a scalar is an empty tensor, which the binding of ONNX Runtime cannot
	// return. So each shape is returned after a leading 1.
	const oneName = "attach/probe/one"
	body := &pb.GraphProto{
		Input: infos,
		Node:  []*pb.NodeProto{node("Constant", nil, oneName, onnx.Attr("value", onnx.Tensor([]int64{1})))},
	}
	names := make([]string, len(tensors))
	for i, t := range tensors {
		names[i] = fmt.Sprintf("attach/probe/%d", i)
		shape := names[i] + "/shape"
		body.Node = append(body.Node, node("Shape", []string{t}, shape), node("Concat", []string{oneName, shape}, names[i], onnx.Attr("axis", 0)))
		body.Output = append(body.Output, &pb.ValueInfoProto{Name: new(names[i])})
	}
	session, err := s.runtime.NewSession(ctx, ort.Model{Proto: subgraph(s.graph, casts, body, tensors...), Dir: s.dir, Unfused: true}, s.inputs.feedNames(), names)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	out, rows, _, err := s.inputs.tryRun(ctx, s.graph, session)
	if rows == 0 {
		return nil, err
	}
	defer closeAll(out)
	shapes := make(map[string][]int64)
	for i, t := range out {
		dims := slices.Clone(ort.View[int64](t)[1:])
		if len(dims) > 0 && dims[0] == int64(rows) && s.inputs.fixedBatch() == 0 {
			dims[0] = -1
		}
		shapes[tensors[i]] = dims
	}
	return shapes, nil
}
