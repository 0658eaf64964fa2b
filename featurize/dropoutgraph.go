package featurize

import (
	"cmp"
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

// findDropLayers lists the Dropout nodes that a tensor depends on, if their rate lies
// strictly between 0 and 1.
func findDropLayers(g *onnx.Graph, dir, tensor string) ([]dropLayer, error) {
	var list []dropLayer
	deps := ancestors(g, tensor)
	for _, n := range g.Model.GetGraph().GetNode() {
		if n.GetOpType() != "Dropout" || len(n.GetInput()) == 0 || len(n.GetOutput()) == 0 || !deps[n.GetOutput()[0]] {
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

// dropoutModel is a model that is split in two before its first dropout layers. The first
// part runs once, and the second part runs once for each pass.
type dropoutModel struct {
	first, second *ort.Session
	layers        []dropLayer
	// secondInputs lists the inputs of the second part that follow the masks. An entry i ≥ 0 is
	// output i of the first part. An entry −1−i is input i of the model.
	secondInputs []int
	// shapeOutputs lists, for each layer, which output of the first part holds the shape of its
	// mask.
	shapeOutputs []int
}

func (s *dropoutModel) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.first.Close(), s.second.Close())
}

// newDropoutModel splits the model in g. If the model has no dropout layers,
// newDropoutModel first inserts one before the last layer.
func (m *Model) newDropoutModel(ctx context.Context, g *onnx.Graph) (*dropoutModel, error) {
	dir := filepath.Dir(m.path)
	g, err := onnx.Upgrade(g, dir)
	if err != nil {
		return nil, err
	}
	model := exposeViews(g, m.inputs, m.views[1:2], []string{logitsName})
	index := onnx.Extend(model).Index()
	typeOf := autodiff.Types(index, dir)
	layers, err := findDropLayers(index, dir, logitsName)
	if err == nil && len(layers) == 0 {
		layers, err = m.insertDropout(model.Graph)
	}
	if err != nil {
		return nil, err
	}
	s := &dropoutModel{layers: layers}
	inputs, err := s.maskLayers(model, newConstants(index, dir, m.runtime), typeOf)
	if err != nil {
		return nil, err
	}
	secondProto := subgraph(onnx.Extend(model).Index(), nil, &pb.GraphProto{Input: inputs, Output: model.Graph.Output}, logitsName)

	infos, casts := m.inputs.declare(g)
	body := &pb.GraphProto{Input: infos}
	var needed, firstOutputs, secondFeeds []string
	addOutput := func(v *pb.ValueInfoProto) int {
		body.Output = append(body.Output, v)
		firstOutputs = append(firstOutputs, v.GetName())
		return len(firstOutputs) - 1
	}
	for i, l := range layers {
		name := fmt.Sprintf("attach/shape/%d", i)
		body.Node = append(body.Node, node("Shape", []string{l.in}, name))
		s.shapeOutputs = append(s.shapeOutputs, addOutput(onnx.ValueInfo(name, pb.TensorProto_INT64, -1)))
		needed, secondFeeds = append(needed, l.in), append(secondFeeds, maskName(i))
	}
	var received []*pb.NodeProto
	for _, v := range missingInputs(secondProto.Graph, typeOf) {
		needed = append(needed, v.GetName())
		position := slices.Index(m.inputs.feedNames(), v.GetName())
		if position >= 0 {
			position = -1 - position
		} else {
			send, receive := transferNodes(v)
			body.Node, received = append(body.Node, send...), append(received, receive...)
			position = addOutput(v)
		}
		v.GetType().GetTensorType().Shape = nil
		secondProto.Graph.Input, secondFeeds = append(secondProto.Graph.Input, v), append(secondFeeds, v.GetName())
		s.secondInputs = append(s.secondInputs, position)
	}
	secondProto.Graph.Node = append(received, secondProto.Graph.Node...)
	firstModel := ort.Model{Proto: subgraph(g, casts, body, needed...), Dir: dir}
	if s.first, err = m.runtime.NewSession(ctx, firstModel, m.inputs.feedNames(), firstOutputs); err != nil {
		return nil, err
	}
	if s.second, err = m.runtime.NewSession(ctx, ort.Model{Proto: secondProto, Dir: dir}, secondFeeds, []string{logitsName}); err != nil {
		s.first.Close()
		return nil, err
	}
	return s, nil
}

// transferNodes redeclares a tensor that the first session returns and the second session
// takes. The nodes in send convert it at the end of the first session, and the nodes in
// receive convert it back at the start of the second. Conversion is needed because sessions
// can exchange neither half-precision numbers nor scalars. A tensor whose axes are not
// declared may be a scalar.
func transferNodes(v *pb.ValueInfoProto) (send, receive []*pb.NodeProto) {
	t, name := v.GetType().GetTensorType(), v.GetName()
	elem, floatElem := t.GetElemType(), t.GetElemType()
	if floatElem == int32(pb.TensorProto_FLOAT16) || floatElem == int32(pb.TensorProto_BFLOAT16) {
		floatElem = int32(pb.TensorProto_FLOAT)
	}
	to := func(elem int32) *pb.AttributeProto { return onnx.Attr("to", pb.TensorProto_DataType(elem)) }
	v.Name, t.ElemType = new(name+"/passed"), &floatElem
	if len(t.GetShape().GetDim()) > 0 {
		return []*pb.NodeProto{node("Cast", []string{name}, v.GetName(), to(floatElem))}, []*pb.NodeProto{node("Cast", []string{v.GetName()}, name, to(elem))}
	}
	axis := func(prefix string) *pb.NodeProto {
		return node("Constant", nil, prefix+"/axis", onnx.Attr("value", onnx.Tensor([]int64{0})))
	}
	sent, received := name+"/given", name+"/taken"
	send = []*pb.NodeProto{node("Cast", []string{name}, sent, to(floatElem)), axis(sent), node("Unsqueeze", []string{sent, sent + "/axis"}, v.GetName())}
	receive = []*pb.NodeProto{axis(received), node("Squeeze", []string{v.GetName(), received + "/axis"}, received), node("Cast", []string{received}, name, to(elem))}
	return send, receive
}

// insertDropout inserts a dropout layer between the input of the last linear layer and the
// nodes that read it. If the caller named another tensor as features, that tensor is dropped.
func (m *Model) insertDropout(g *pb.GraphProto) ([]dropLayer, error) {
	if m.views[0].scale != "" {
		return nil, fmt.Errorf("%w: the last layer reads 8-bit integers, which cannot be dropped", ood.ErrNoDropout)
	}
	l := dropLayer{in: cmp.Or(m.info.Feature.LastLayer, m.views[0].tensor), out: "attach/dropped"}
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

// maskLayers replaces each dropout layer by a product with a mask, and declares the masks
// as inputs. It removes the nodes that neither depend on a dropout layer nor are constant.
func (s *dropoutModel) maskLayers(model *pb.ModelProto, k *constants, typeOf func(string) *pb.ValueInfoProto) ([]*pb.ValueInfoProto, error) {
	downstream := make(map[string]bool)
	isDropout := make(map[*pb.NodeProto]bool)
	var nodes []*pb.NodeProto
	var masks []*pb.ValueInfoProto
	for i, l := range s.layers {
		mask := maskName(i)
		v := onnx.ValueInfo(mask, pb.TensorProto_FLOAT)
		v.GetType().GetTensorType().Shape = nil
		masks = append(masks, v)
		downstream[l.out], isDropout[l.node] = true, true
	}
	multiply := func(i int) {
		l, mask := s.layers[i], maskName(i)
		if t := typeOf(l.in).GetType().GetTensorType().GetElemType(); t != int32(pb.TensorProto_FLOAT) && t != 0 {
			nodes = append(nodes, node("Cast", []string{mask}, mask+"/cast", onnx.Attr("to", pb.TensorProto_DataType(t))))
			mask += "/cast"
		}
		nodes = append(nodes, node("Mul", []string{l.in, mask}, l.out))
	}
	if s.layers[0].node == nil {
		multiply(0)
	}
	for _, n := range model.Graph.Node {
		if isDropout[n] {
			multiply(slices.IndexFunc(s.layers, func(l dropLayer) bool { return l.node == n }))
			continue
		}
		constant := len(n.GetOutput()) > 0 && k.isConst(n.GetOutput()[0])
		if slices.ContainsFunc(onnx.Reads(n), func(in string) bool { return downstream[in] }) {
			for _, out := range n.GetOutput() {
				downstream[out] = true
			}
		} else if !constant {
			continue
		}
		nodes = append(nodes, n)
	}
	if !downstream[logitsName] {
		return nil, fmt.Errorf("%w: the logits do not depend on tensor %q", ood.ErrNoDropout, s.layers[0].in)
	}
	model.Graph.Node = nodes
	return masks, nil
}

// missingInputs declares the tensors that the nodes of a graph read but do not compute.
func missingInputs(g *pb.GraphProto, typeOf func(string) *pb.ValueInfoProto) []*pb.ValueInfoProto {
	computed := onnx.DefinedNames(g)
	computed[""] = true
	var missing []*pb.ValueInfoProto
	for _, n := range g.Node {
		for _, in := range onnx.Reads(n) {
			if !computed[in] {
				computed[in] = true
				v := typeOf(in)
				if v.GetType().GetTensorType().GetElemType() == 0 {
					v.GetType().GetTensorType().ElemType = new(int32(pb.TensorProto_FLOAT))
				}
				missing = append(missing, v)
			}
		}
	}
	return missing
}
