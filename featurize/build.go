package featurize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
)

// builder makes a Model from a graph.
type builder struct {
	*Model
	g   *onnx.Graph
	dir string
	o   Options
	k   *constants
}

func asNoLinearLayer(err error) (*NoLinearLayerError, bool) {
	var none *NoLinearLayerError
	ok := errors.As(err, &none)
	return none, ok
}

func (b *builder) build(ctx context.Context) error {
	b.describe()
	p, reason, err := b.choose()
	if err != nil {
		return err
	}
	feature := view{}
	if p != nil && p.node != nil {
		feature = p.feature
		if b.last, err = p.weights(ctx, b.k); err != nil {
			if ctx.Err() != nil || errors.Is(err, onnx.ErrExternalData) {
				return err
			}
			p.because("its weights could not be read: %v", err)
		}
		if feature.tokens {
			if feature.rank, err = b.rank(ctx, feature.tensor); err != nil {
				return err
			}
		}
		b.info.Feature = &Feature{Tensor: feature.tensor, Node: b.g.NodeName(p.node), Op: p.node.GetOpType()}
	}
	named := b.o.Feature != "" && b.o.Feature != feature.tensor
	if named {
		if feature, err = b.named(ctx, b.o.Feature, "the feature"); err != nil {
			return err
		}
		b.info.Feature = &Feature{Tensor: feature.tensor}
		if n := b.g.Producer(feature.tensor); n != nil {
			b.info.Feature.Node, b.info.Feature.Op = b.g.NodeName(n), n.GetOpType()
		}
	}
	if b.info.Feature == nil {
		return b.none(ctx, reason)
	}
	b.info.Output, b.info.Logits, b.info.Normaliser = p.output, p.logits, p.normaliser
	b.views = []view{feature, {tensor: p.logits}}
	// An error is one for who asks for dropout.
	if layers, err := dropLayers(b.g, b.dir, p.logits); err == nil {
		b.dropouts = len(layers)
	}
	if err := b.findLayers(ctx, feature); err != nil {
		return err
	}
	names := exposedNames()
	for i, v := range b.layers {
		names = append(names, layerName(i))
		b.info.Layers = append(b.info.Layers, Layer{Tensor: v.tensor})
	}
	model := exposed(b.g, b.input, slices.Concat(b.views, b.layers), names)
	b.session, err = b.rt.NewSession(ctx, ort.Model{Proto: model, Dir: b.dir}, []string{b.input.feed}, names)
	if err != nil {
		return fmt.Errorf("the runtime refuses the model: %w", err)
	}
	return b.verify(ctx, p, named)
}

// describe fills in what the file says of itself.
func (b *builder) describe() {
	values := func(list []*pb.ValueInfoProto) []Value {
		out := make([]Value, len(list))
		for i, v := range list {
			out[i] = Value{Name: v.GetName(), Shape: shapeOf(v), DType: "unknown"}
			if t := v.GetType().GetTensorType(); t != nil {
				out[i].DType = onnx.DTypeName(t.GetElemType())
			}
		}
		return out
	}
	b.info = Info{
		Opset: b.g.Opset(), IRVersion: b.g.Model.GetIrVersion(),
		Inputs: values(b.g.Inputs()), Outputs: values(b.g.Outputs()),
		Providers: b.rt.Providers(), Task: "unknown", Layout: b.input.layout(),
	}
}

// choose picks the output and finds the layer behind it. Where there is none,
// the place has no node and reason says why.
func (b *builder) choose() (p *place, reason string, err error) {
	var outputs, names []string
	for _, v := range b.g.Outputs() {
		names = append(names, strconv.Quote(v.GetName()))
		if floating(v) {
			outputs = append(outputs, v.GetName())
		}
	}
	if b.o.Output != "" {
		if b.g.Producer(b.o.Output) == nil {
			return nil, "", fmt.Errorf("the model has no output or tensor %q; its outputs are %s", b.o.Output, strings.Join(names, ", "))
		}
		outputs = []string{b.o.Output}
	}
	if len(outputs) == 0 {
		return nil, "", fmt.Errorf("none of the model's outputs (%s) holds floating-point numbers; name another tensor with --output", strings.Join(names, ", "))
	}
	var reasons []string
	for _, name := range outputs {
		found, err := find(b.g, b.k, name)
		switch {
		case err != nil:
			reasons = append(reasons, err.Error())
		case p == nil, p.normaliser == "" && reaches(b.g, p.logits, found.feature.tensor):
			// The second case: an embedding comes before the logits that are
			// made of it.
			p = found
		}
	}
	if p != nil {
		return p, "", nil
	}
	return &place{output: outputs[0], logits: outputs[0]}, strings.Join(reasons, "; "), nil
}

// floating says whether an output may hold floats; a ZipMap's sequence of maps
// counts, since the walk passes it.
func floating(v *pb.ValueInfoProto) bool {
	t := v.GetType().GetTensorType()
	if t == nil {
		return true
	}
	switch pb.TensorProto_DataType(t.GetElemType()) {
	case pb.TensorProto_UNDEFINED, pb.TensorProto_FLOAT, pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16:
		return true
	}
	return false
}

// named is the view of a tensor that the caller chose as what.
func (b *builder) named(ctx context.Context, tensor, what string) (view, error) {
	v := view{tensor: tensor}
	if b.g.Producer(tensor) == nil && tensor != b.input.name {
		return v, fmt.Errorf("the model has no tensor %q to use as %s%s", tensor, what, some("; it has", b.candidates(ctx)))
	}
	if b.k.is(tensor) {
		return v, fmt.Errorf("tensor %q is a constant and cannot be %s", tensor, what)
	}
	var err error
	if v.rank, err = b.rank(ctx, tensor); err != nil {
		return v, err
	}
	last := int64(0)
	if n := b.g.Producer(tensor); n != nil && n.GetOpType() == "Transpose" {
		perm := onnx.AttributeInts(n, "perm")
		if len(perm) > 0 {
			last = perm[len(perm)-1]
		}
	}
	v.tokens = v.rank == 3 || v.rank > 3 && last == 1
	v.spatial = v.rank > 3 && !v.tokens
	return v, nil
}

// rank returns the number of axes of a tensor.
func (b *builder) rank(ctx context.Context, tensor string) (int, error) {
	ranks, err := b.ranks(ctx, []string{tensor})
	return ranks[tensor], err
}

// ranks returns the numbers of axes of tensors: the declared ones, or those of a
// run on random inputs.
func (b *builder) ranks(ctx context.Context, tensors []string) (map[string]int, error) {
	ranks := make(map[string]int)
	var undeclared []string
	for _, tensor := range tensors {
		if v := b.g.Type(tensor); v != nil && shapeOf(v) != nil {
			ranks[tensor] = len(shapeOf(v))
		} else {
			undeclared = append(undeclared, tensor)
		}
	}
	shapes, err := b.probeShapes(ctx, undeclared)
	for _, tensor := range undeclared {
		ranks[tensor] = len(shapes[tensor])
	}
	return ranks, err
}

// verify runs the edited model on random rows: it learns the widths and
// whether the batch is free, and compares Wφ+b with the logits.
func (b *builder) verify(ctx context.Context, p *place, named bool) error {
	b.batch = b.o.Batch
	if n := b.input.fixedBatch(); n > 0 {
		b.batch, b.fixed, b.info.FixedBatch = n, true, n
	}
	out, shape, err := b.input.try(ctx, b.g, b.session)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if shape == nil {
		return b.unverified(p, err)
	}
	defer closeAll(out)
	n := shape[0]
	if n == 1 && !b.fixed {
		b.batch, b.fixed, b.info.FixedBatch = 1, true, 1
	}
	if b.batch <= 0 {
		b.batch = defaultBatch(product(shape[1:]))
	}
	phi, err := rows(out[0], n)
	if err != nil {
		return fmt.Errorf("feature %q comes out with %w", b.info.Feature.Tensor, err)
	}
	logits, err := rows(out[1], n)
	if err != nil {
		return fmt.Errorf("output %q comes out with %w", b.info.Output, err)
	}
	b.info.Feature.Width, b.info.OutputsWidth = phi.Cols, logits.Cols
	for i, t := range out[len(b.views):] {
		layer, err := rows(t, n)
		if err != nil {
			return fmt.Errorf("layer %q comes out with %w%s", b.info.Layers[i].Tensor, err, b.withoutLayers())
		}
		b.info.Layers[i].Width = layer.Cols
	}
	if b.last != nil && (b.last.Weight.Cols != phi.Cols || b.last.Weight.Rows != logits.Cols) {
		if !named {
			return b.none(ctx, fmt.Sprintf("%s maps %d features to %d outputs at each of several positions of an input, and gives %d numbers a row",
				describe(b.g, p.node), b.last.Weight.Cols, b.last.Weight.Rows, logits.Cols))
		}
		b.last = nil
	}
	b.info.Task = task(p.normaliser, logits.Cols)
	b.compare(p, phi, logits, named)
	return nil
}

// compare settles Exact.
func (b *builder) compare(p *place, phi, logits blas32.General, named bool) {
	if b.last == nil {
		reasons := p.reasons
		if named {
			reasons = []string{"the feature was named, not found"}
		}
		b.info.ExactReason = strings.Join(reasons, "; ")
		return
	}
	e := residual(b.last, phi, logits)
	elem := int32(pb.TensorProto_FLOAT)
	if w, ok := b.g.Const(p.node.GetInput()[slots[p.node.GetOpType()].weight]); ok {
		elem = w.GetDataType()
	}
	close := e <= tolerance(elem)
	if e-e == 0 {
		b.info.ExactError = &e
	}
	switch {
	case named && !close:
		b.last, b.info.ExactError = nil, nil
		b.info.ExactReason = "the feature that was named is not the input of the last linear layer"
	case len(p.reasons) > 0:
		b.info.ExactReason = strings.Join(p.reasons, "; ")
	case !close:
		b.info.ExactReason = fmt.Sprintf("on random inputs Wφ+b differs from the logits by %.2g of their norm", e)
	default:
		b.info.Exact = true
	}
}

// unverified settles what can be said of a model that random inputs could not
// run.
func (b *builder) unverified(p *place, err error) error {
	reason := "the shape of its inputs is not known"
	row := b.input.dims[min(1, len(b.input.dims)):]
	if b.input.dims != nil && !slices.Contains(row, -1) {
		if err != nil {
			return fmt.Errorf("the runtime cannot run the model: %w", err)
		}
		reason = fmt.Sprintf("inputs of %s are too large to try some", times(b.input.dims))
	}
	if b.batch <= 0 {
		b.batch = defaultBatch(int(floatProduct(row)))
	}
	if b.last != nil {
		b.info.Feature.Width, b.info.OutputsWidth = b.last.Weight.Cols, b.last.Weight.Rows
		b.info.Task = task(p.normaliser, b.last.Weight.Rows)
	}
	b.info.ExactReason = "not verified: " + reason
	return nil
}

// defaultBatch is 64 rows, or less where that would be more than 64 MiB.
func defaultBatch(width int) int {
	return max(1, min(64, (16<<20)/max(1, width)))
}
