package featurize

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// dropLayer is a dropout layer that reads the tensor in, sets some of its elements to 0,
// and writes the tensor out.
type dropLayer struct {
	in, out string
	rate    float64 // unused if the layer was inserted, because the caller then sets the rate
	// node is the Dropout node, or nil if the layer was inserted.
	node *pb.NodeProto
}

// dropLayers lists the Dropout nodes that the tensor need depends on, if their rate lies
// strictly between 0 and 1.
func dropLayers(g *onnx.Graph, dir, need string) ([]dropLayer, error) {
	var list []dropLayer
	made := ancestors(g, need)
	for _, n := range g.Model.GetGraph().GetNode() {
		if n.GetOpType() != "Dropout" || len(n.GetInput()) == 0 || len(n.GetOutput()) == 0 || !made[n.GetOutput()[0]] {
			continue
		}
		l := dropLayer{in: n.GetInput()[0], out: n.GetOutput()[0], node: n, rate: float64(onnx.AttributeFloat(n, "ratio", .5))}
		if len(n.GetInput()) > 1 && n.GetInput()[1] != "" {
			t, ok := g.Const(n.GetInput()[1])
			if !ok {
				return nil, fmt.Errorf("the rate of %s is not constant", describe(g, n))
			}
			v, _, err := onnx.Float32s(t, dir)
			if err != nil || len(v) != 1 {
				return nil, fmt.Errorf("the rate of %s could not be read (%v)", describe(g, n), err)
			}
			l.rate = float64(v[0])
		}
		if l.rate > 0 && l.rate < 1 {
			list = append(list, l)
		}
	}
	return list, nil
}

// stochastic is a model that is split in two before its first dropout layers. The first
// part runs once, and the second part runs once for each pass.
type stochastic struct {
	before, after *ort.Session
	layers        []dropLayer
	// takes lists the inputs of the second part that follow the masks. An entry i ≥ 0 is
	// output i of the first part. An entry −1−i is input i of the model.
	takes []int
	// shapes lists, for each layer, which output of the first part holds the shape of its
	// mask.
	shapes []int
}

func (s *stochastic) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.before.Close(), s.after.Close())
}

// makeStochastic splits the model in g. If the model has no dropout layers, it first
// inserts one before the last layer.
func (m *Model) makeStochastic(ctx context.Context, g *onnx.Graph) (*stochastic, error) {
	dir := filepath.Dir(m.path)
	g, err := onnx.Upgrade(g, dir)
	if err != nil {
		return nil, err
	}
	model := exposed(g, m.inputs, m.views[1:2], []string{logitsName})
	index := onnx.Extend(model).Index()
	typeOf := autodiff.Types(index, dir)
	layers, err := dropLayers(index, dir, logitsName)
	if err == nil && len(layers) == 0 {
		layers, err = m.insertDropout(model.Graph)
	}
	if err != nil {
		return nil, err
	}
	s := &stochastic{layers: layers}
	inputs, err := s.keepBehind(model, newConstants(index, dir, m.rt), typeOf)
	if err != nil {
		return nil, err
	}
	after := part(onnx.Extend(model).Index(), nil, &pb.GraphProto{Input: inputs, Output: model.Graph.Output}, logitsName)

	infos, heads := m.inputs.declare(g)
	body := &pb.GraphProto{Input: infos}
	var cut, made, fed []string
	output := func(v *pb.ValueInfoProto) int {
		body.Output = append(body.Output, v)
		made = append(made, v.GetName())
		return len(made) - 1
	}
	for i, l := range layers {
		name := fmt.Sprintf("attach/shape/%d", i)
		body.Node = append(body.Node, node("Shape", []string{l.in}, name))
		s.shapes = append(s.shapes, output(onnx.ValueInfo(name, pb.TensorProto_INT64, -1)))
		cut, fed = append(cut, l.in), append(fed, maskName(i))
	}
	var received []*pb.NodeProto
	for _, v := range cutInputs(after.Graph, typeOf) {
		cut = append(cut, v.GetName())
		at := slices.Index(m.inputs.feeds(), v.GetName())
		if at >= 0 {
			at = -1 - at
		} else {
			give, take := passed(v)
			body.Node, received = append(body.Node, give...), append(received, take...)
			at = output(v)
		}
		v.GetType().GetTensorType().Shape = nil
		after.Graph.Input, fed = append(after.Graph.Input, v), append(fed, v.GetName())
		s.takes = append(s.takes, at)
	}
	after.Graph.Node = append(received, after.Graph.Node...)
	before := ort.Model{Proto: part(g, heads, body, cut...), Dir: dir}
	if s.before, err = m.rt.NewSession(ctx, before, m.inputs.feeds(), made); err != nil {
		return nil, err
	}
	if s.after, err = m.rt.NewSession(ctx, ort.Model{Proto: after, Dir: dir}, fed, []string{logitsName}); err != nil {
		s.before.Close()
		return nil, err
	}
	return s, nil
}

// passed redeclares a tensor that the first session returns and the second session takes.
// The nodes give convert it after the first session, and the nodes take convert it back.
// They are needed because sessions can exchange neither half-precision numbers nor scalars.
// A tensor whose axes are not declared may be a scalar.
func passed(v *pb.ValueInfoProto) (give, take []*pb.NodeProto) {
	t, name := v.GetType().GetTensorType(), v.GetName()
	elem, wide := t.GetElemType(), t.GetElemType()
	if wide == int32(pb.TensorProto_FLOAT16) || wide == int32(pb.TensorProto_BFLOAT16) {
		wide = int32(pb.TensorProto_FLOAT)
	}
	to := func(elem int32) *pb.AttributeProto { return onnx.Attr("to", pb.TensorProto_DataType(elem)) }
	v.Name, t.ElemType = new(name+"/passed"), &wide
	if len(t.GetShape().GetDim()) > 0 {
		return []*pb.NodeProto{node("Cast", []string{name}, v.GetName(), to(wide))}, []*pb.NodeProto{node("Cast", []string{v.GetName()}, name, to(elem))}
	}
	axis := func(of string) *pb.NodeProto {
		return node("Constant", nil, of+"/axis", onnx.Attr("value", onnx.Tensor([]int64{0})))
	}
	given, taken := name+"/given", name+"/taken"
	give = []*pb.NodeProto{node("Cast", []string{name}, given, to(wide)), axis(given), node("Unsqueeze", []string{given, given + "/axis"}, v.GetName())}
	take = []*pb.NodeProto{axis(taken), node("Squeeze", []string{v.GetName(), taken + "/axis"}, taken), node("Cast", []string{taken}, name, to(elem))}
	return give, take
}

// insertDropout inserts a dropout layer between the features φ and the nodes that read φ.
func (m *Model) insertDropout(g *pb.GraphProto) ([]dropLayer, error) {
	phi := m.views[0]
	if phi.scale != "" {
		return nil, fmt.Errorf("%w: the last layer reads 8-bit integers, which cannot be dropped", ood.ErrNoDropout)
	}
	l := dropLayer{in: phi.tensor, out: "attach/dropped"}
	for i, n := range g.Node {
		if !slices.Contains(n.GetInput(), l.in) {
			continue
		}
		g.Node[i] = proto.CloneOf(n)
		for j, in := range g.Node[i].Input {
			if in == l.in {
				g.Node[i].Input[j] = l.out
			}
		}
	}
	return []dropLayer{l}, nil
}

// maskName returns the name of the graph input that holds the mask of layer i.
func maskName(i int) string { return fmt.Sprintf("attach/mask/%d", i) }

// keepBehind replaces each dropout layer by a product with a mask, and declares the masks
// as inputs. It removes the nodes that neither depend on a dropout layer nor are constant.
func (s *stochastic) keepBehind(model *pb.ModelProto, k *constants, typeOf func(string) *pb.ValueInfoProto) ([]*pb.ValueInfoProto, error) {
	behind := make(map[string]bool)
	drops := make(map[*pb.NodeProto]bool)
	var kept []*pb.NodeProto
	var masks []*pb.ValueInfoProto
	for i, l := range s.layers {
		mask := maskName(i)
		v := onnx.ValueInfo(mask, pb.TensorProto_FLOAT)
		v.GetType().GetTensorType().Shape = nil
		masks = append(masks, v)
		behind[l.out], drops[l.node] = true, true
	}
	multiply := func(i int) {
		l, mask := s.layers[i], maskName(i)
		if t := typeOf(l.in).GetType().GetTensorType().GetElemType(); t != int32(pb.TensorProto_FLOAT) && t != 0 {
			kept = append(kept, node("Cast", []string{mask}, mask+"/cast", onnx.Attr("to", pb.TensorProto_DataType(t))))
			mask += "/cast"
		}
		kept = append(kept, node("Mul", []string{l.in, mask}, l.out))
	}
	if s.layers[0].node == nil {
		multiply(0)
	}
	for _, n := range model.Graph.Node {
		if drops[n] {
			multiply(slices.IndexFunc(s.layers, func(l dropLayer) bool { return l.node == n }))
			continue
		}
		constant := len(n.GetOutput()) > 0 && k.is(n.GetOutput()[0])
		if slices.ContainsFunc(onnx.Reads(n), func(in string) bool { return behind[in] }) {
			for _, out := range n.GetOutput() {
				behind[out] = true
			}
		} else if !constant {
			continue
		}
		kept = append(kept, n)
	}
	if !behind[logitsName] {
		return nil, fmt.Errorf("%w: the logits do not depend on tensor %q", ood.ErrNoDropout, s.layers[0].in)
	}
	model.Graph.Node = kept
	return masks, nil
}

// cutInputs declares the tensors that the nodes of a graph read but do not compute.
func cutInputs(g *pb.GraphProto, typeOf func(string) *pb.ValueInfoProto) []*pb.ValueInfoProto {
	made := onnx.DefinedNames(g)
	made[""] = true
	var cut []*pb.ValueInfoProto
	for _, n := range g.Node {
		for _, in := range onnx.Reads(n) {
			if !made[in] {
				made[in] = true
				v := typeOf(in)
				if v.GetType().GetTensorType().GetElemType() == 0 {
					v.GetType().GetTensorType().ElemType = new(int32(pb.TensorProto_FLOAT))
				}
				cut = append(cut, v)
			}
		}
	}
	return cut
}
