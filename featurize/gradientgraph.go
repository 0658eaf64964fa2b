package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/ood"
)

const gradientName = "attach/gradient"

// gradientKey is what a gradient's graph is made for.
type gradientKey struct {
	of     ood.Scalar // but its temperature and index
	tensor string
}

// differentiated is a network with its gradient: one session, or, where the
// model's operator set lacks what the gradient is made of, two, of which the
// second takes activations from the first.
type differentiated struct {
	key               gradientKey
	tensor            string       // with respect to which
	along             int          // the input whose second axis is the tensor's too, or −1
	forward, backward *ort.Session // backward is nil where forward does it all
	// takes is what backward takes after the scalar's own inputs: outputs of
	// forward, or −1−i for input i.
	takes []int
}

func (d *differentiated) close() error {
	return errors.Join(d.forward.Close(), d.backward.Close())
}

func (m *Model) differentiate(ctx context.Context, g *onnx.Graph, key gradientKey) (*differentiated, error) {
	k := kind{Model: m, g: g, key: key, dir: filepath.Dir(m.path)}
	if k.key.tensor == "" {
		in, err := m.inputs.real()
		if err != nil {
			return nil, err
		}
		k.key.tensor = in.name
	}
	d, err := k.merged(ctx)
	if errors.Is(err, autodiff.ErrOpset) {
		d, err = k.separate(ctx)
	}
	var refused *autodiff.TensorError
	var unsupported *autodiff.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		return nil, fmt.Errorf("%w: %w; use the method's variant in feature space, "+
			"or differentiate with respect to a tensor behind that node", ood.ErrNotDifferentiable, err)
	case errors.Is(err, autodiff.ErrNoPath):
		return nil, fmt.Errorf("%w: the logits do not depend on tensor %q by operators that have a derivative", ood.ErrNotDifferentiable, k.key.tensor)
	case errors.As(err, &refused):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot make the gradient with respect to %q: %w", k.key.tensor, err)
	}
	d.key, d.tensor, d.along = key, k.key.tensor, k.along(ctx)
	return d, ctx.Err()
}

// along is the input whose second axis is also the tensor's, as far as random rows
// tell, or −1.
func (k kind) along(ctx context.Context) int {
	probed := []string{k.key.tensor}
	for i, in := range k.inputs {
		if in.name == k.key.tensor {
			return i
		}
		if len(in.dims) > 1 && in.layout() == "" {
			probed = append(probed, in.name)
		}
	}
	if len(probed) == 1 {
		return -1
	}
	s := source{constants: newConstants(k.g, k.dir, k.rt, k.inputs...), inputs: k.inputs}
	shapes, _ := s.probeShapes(ctx, probed) // of what cannot be run nothing is known
	shape := shapes[k.key.tensor]
	return slices.IndexFunc(k.inputs, func(in input) bool {
		of := shapes[in.name]
		return len(shape) > 2 && len(of) > 1 && of[1] == shape[1]
	})
}

// real says whether the model takes real numbers.
func (in input) real() bool { return onnx.IsFloat(pb.TensorProto_DataType(in.elem)) }

// real is what one differentiates with respect to: the only input, or the only one
// of real numbers.
func (list inputs) real() (input, error) {
	if len(list) == 1 {
		return list[0], nil
	}
	var all []string
	var found input
	for _, in := range list {
		if in.real() && !in.masks() && !in.optional() {
			found = in
			all = append(all, in.name)
		}
	}
	switch len(all) {
	case 1:
		return found, nil
	case 0:
		return found, fmt.Errorf("%w: none of its %d inputs holds real numbers; use the method's variant in feature space, "+
			"or differentiate with respect to a tensor made of them", ood.ErrNotDifferentiable, len(list))
	}
	return found, fmt.Errorf("%w: several of its inputs hold real numbers (%s); use the method's variant in feature space, "+
		"or differentiate with respect to one of them", ood.ErrNotDifferentiable, listed(all))
}

// kind makes the sessions of one kind of gradient.
type kind struct {
	*Model
	g   *onnx.Graph
	key gradientKey
	dir string
}

// merged appends the gradient to the network.
func (k kind) merged(ctx context.Context) (*differentiated, error) {
	m := exposed(k.g, k.inputs, k.views[:2], exposedNames())
	b := onnx.Extend(m)
	wrt, err := k.with(b.Index())
	if err != nil {
		return nil, err
	}
	s := scalarGraph{b: b, classes: k.info.OutputsWidth}
	if b.Opset() < 13 {
		return nil, autodiff.ErrOpset
	}
	gradients, err := autodiff.Gradient(b, []autodiff.Seed{{Output: logitsName, Upstream: s.upstream(k.key.of)}}, wrt)
	if err != nil {
		return nil, err
	}
	out := declare(b, gradients)
	if m, err = b.Model(); err != nil {
		return nil, err
	}
	d := &differentiated{}
	d.forward, err = k.session(ctx, m, append(k.inputs.feeds(), s.inputs...), append(exposedNames(), out))
	return d, err
}

// separate makes the gradient a model of its own.
func (k kind) separate(ctx context.Context) (*differentiated, error) {
	index := onnx.Extend(exposed(k.g, k.inputs, k.views[:2], exposedNames())).Index()
	wrt, err := k.with(index)
	if err != nil {
		return nil, err
	}
	back := autodiff.NewSeparate(index, k.dir)
	s := scalarGraph{b: back.Builder(), classes: k.info.OutputsWidth}
	gradients, err := back.Gradient([]autodiff.Seed{{Output: logitsName, Upstream: s.upstream(k.key.of)}}, wrt)
	if err != nil {
		return nil, err
	}
	out := declare(back.Builder(), gradients)
	model, taken, err := back.Model()
	if err != nil {
		return nil, err
	}
	d := &differentiated{}
	forward, names := k.keeping(d, taken, model)
	inputs := slices.Clone(s.inputs)
	for _, a := range taken {
		inputs = append(inputs, a.Input)
	}
	if d.forward, err = k.session(ctx, forward, k.inputs.feeds(), names); err != nil {
		return nil, err
	}
	if d.backward, err = k.session(ctx, model, inputs, []string{out}); err != nil {
		d.forward.Close()
		return nil, err
	}
	return d, nil
}

// session makes a model ready to run.
func (k kind) session(ctx context.Context, m *pb.ModelProto, inputs, outputs []string) (*ort.Session, error) {
	return k.rt.NewSession(ctx, ort.Model{Proto: m, Dir: k.dir}, inputs, outputs)
}

// keeping is the network that also gives what the backward model takes, with
// the names of all its outputs.
func (k kind) keeping(d *differentiated, taken []autodiff.Activation, backward *pb.ModelProto) (*pb.ModelProto, []string) {
	types := make(map[string]*pb.ValueInfoProto)
	for _, v := range backward.GetGraph().GetInput() {
		types[v.GetName()] = v
	}
	var shapes []*pb.NodeProto
	var outputs []*pb.ValueInfoProto
	names := exposedNames()
	for _, a := range taken {
		at, fed := slices.Index(names, a.Tensor), slices.Index(k.inputs.feeds(), a.Tensor)
		if !a.Shape && fed >= 0 {
			at = -1 - fed
		} else if a.Shape || at < 0 {
			at = len(names)
			// The shape that the backward model was told is a deduction; the
			// runtime makes its own.
			v := proto.CloneOf(types[a.Input])
			v.Name = ptr(a.Tensor)
			if !a.Scalar {
				v.GetType().GetTensorType().Shape = nil
			}
			if a.Shape {
				v.Name = ptr(fmt.Sprintf("attach/shape/%d", at))
				shapes = append(shapes, node("Shape", []string{a.Tensor}, v.GetName()))
			}
			outputs = append(outputs, v)
			names = append(names, v.GetName())
		}
		d.takes = append(d.takes, at)
	}
	m := exposed(k.g, k.inputs, k.views[:2], exposedNames(), shapes...)
	m.Graph.Output = append(m.Graph.Output, outputs...)
	return m, names
}

// with lists the tensors whose gradients add up to that with respect to the
// tensor asked for: itself, or, where it holds integers, what they become as
// real numbers.
func (k kind) with(g *onnx.Graph) ([]string, error) {
	tensor := k.key.tensor
	_, constant := g.Const(tensor)
	made := ancestors(g, tensor)
	switch {
	case slices.ContainsFunc(k.inputs.feeds(), func(feed string) bool { return made[feed] }):
	case g.Producer(tensor) != nil || constant:
		return nil, &autodiff.TensorError{Tensor: tensor, Reason: "it does not depend on the model's input, and is the same for every row"}
	default:
		return nil, &autodiff.TensorError{Tensor: tensor, Reason: "the logits are not made from a tensor of that name"}
	}
	in := k.inputs.find(tensor)
	if in == nil || in.real() {
		return []string{tensor}, nil
	}
	var casts []string
	for _, n := range g.Consumers(tensor) {
		switch n.GetOpType() {
		case "Cast":
			casts = append(casts, n.GetOutput()[0])
		case "Shape", "Size":
		default:
			return nil, fmt.Errorf("%w: the input holds %s, which %s reads as they are; name an inner tensor to differentiate by",
				ood.ErrNotDifferentiable, onnx.DTypeName(in.elem), describe(g, n))
		}
	}
	if len(casts) == 0 {
		return nil, fmt.Errorf("%w: the input holds %s", ood.ErrNotDifferentiable, onnx.DTypeName(in.elem))
	}
	return casts, nil
}

// declare makes the sum of gradients a float32 output.
func declare(b *onnx.Builder, gradients []string) string {
	sum := ""
	for _, g := range gradients {
		single := b.Node("Cast", []string{g}, onnx.Attr("to", pb.TensorProto_FLOAT))
		if sum == "" {
			sum = single
		} else {
			sum = b.Node("Add", []string{sum, single})
		}
	}
	out := b.OutputAs(gradientName, sum, pb.TensorProto_FLOAT)
	outputs := b.Graph().Output
	outputs[len(outputs)-1].GetType().GetTensorType().Shape = nil
	return out
}

// scalarInputs are what the graph takes beside the rows, in the order in which
// scalarGraph declared them.
func (d *differentiated) scalarInputs(o GradientOptions) (list []*ort.Tensor, err error) {
	add := func(t *ort.Tensor, e error) {
		if e == nil {
			list = append(list, t)
		}
		err = errors.Join(err, e)
	}
	if d.key.of.Logit {
		add(ort.NewTensor([]int64{1}, []int64{int64(o.Of.Index)}))
	}
	if kinds(d.key.of) == 0 || d.key.of.Softmax {
		add(ort.NewTensor([]int64{1}, []float32{float32(cmp.Or(o.Of.Temperature, 1))}))
	}
	return list, err
}

// taken are tensors for a second session: outputs of the first, or input i where
// the place is −1−i.
func taken(places []int, x, out []*ort.Tensor) []*ort.Tensor {
	var list []*ort.Tensor
	for _, at := range places {
		if at < 0 {
			list = append(list, x[-1-at])
		} else {
			list = append(list, out[at])
		}
	}
	return list
}

// run returns φ, the logits and the gradient.
func (d *differentiated) run(ctx context.Context, x, scalar []*ort.Tensor) ([]*ort.Tensor, error) {
	if d.backward == nil {
		return d.forward.Run(ctx, append(slices.Clone(x), scalar...))
	}
	out, err := d.forward.Run(ctx, x)
	if err != nil {
		return nil, err
	}
	defer closeAll(out[2:])
	gradient, err := d.backward.Run(ctx, append(slices.Clone(scalar), taken(d.takes, x, out)...))
	if err != nil {
		closeAll(out[:2])
		return nil, err
	}
	return []*ort.Tensor{out[0], out[1], gradient[0]}, nil
}
