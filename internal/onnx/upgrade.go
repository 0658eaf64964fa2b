package onnx

import (
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// TargetOpset is the version of the default operator set that Upgrade converts to. It has
// all operators that gradients need, and every provider of ONNX Runtime supports it.
const TargetOpset = 17

// Upgrade converts a model of an older operator set to TargetOpset, in place, and indexes
// it. Tensors keep their values. dir is the folder of the model's external data. Models of
// TargetOpset or newer are returned unchanged.
func Upgrade(g *Graph, dir string) (*Graph, error) {
	m := g.Model
	if g.Opset() >= TargetOpset {
		return g, nil
	}
	r := upgrader{g: g, dir: dir, fromOpset: g.Opset()}
	if err := r.graph(m.GetGraph()); err != nil {
		return nil, err
	}
	m.OpsetImport = slices.DeleteFunc(slices.Clone(m.OpsetImport), func(o *pb.OperatorSetIdProto) bool { return IsDefault(o.GetDomain()) })
	m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIdProto{Domain: new(""), Version: new(int64(TargetOpset))})
	return newGraph(m), nil
}

// upgrader converts the nodes of a model to operator set TargetOpset.
type upgrader struct {
	g         *Graph
	dir       string
	fromOpset int64           // version of the default operator set before the upgrade
	nodes     []*pb.NodeProto // converted nodes of the current graph
	added     int             // number of tensors added so far
}

// graph converts the nodes of a graph and of its subgraphs.
func (r *upgrader) graph(body *pb.GraphProto) error {
	outer := r.nodes
	r.nodes = nil
	for _, n := range body.GetNode() {
		for _, a := range n.GetAttribute() {
			for _, inner := range subgraphs(a) {
				if err := r.graph(inner); err != nil {
					return err
				}
			}
		}
		if IsDefault(n.GetDomain()) && len(n.GetInput()) > 0 && len(n.GetOutput()) > 0 {
			if err := r.upgrade(n); err != nil {
				return err
			}
		}
		r.nodes = append(r.nodes, n)
	}
	body.Node, r.nodes = r.nodes, outer
	return nil
}

// node appends a node and returns the name of its output.
func (r *upgrader) node(op string, inputs []string, attrs ...*pb.AttributeProto) string {
	r.added++
	out := fmt.Sprintf("attach/raised/%d", r.added)
	r.nodes = append(r.nodes, &pb.NodeProto{OpType: new(op), Name: new(out), Input: inputs, Output: []string{out}, Attribute: attrs})
	return out
}

func (r *upgrader) constant(value any, dims ...int64) string {
	return r.node("Constant", nil, Attr("value", Tensor(value, dims...)))
}

// upgrade converts a node. It may first append helper nodes that the converted node reads.
func (r *upgrader) upgrade(n *pb.NodeProto) error {
	in, op := n.GetInput(), n.GetOpType()
	refusal := func(reason string) error {
		return fmt.Errorf("node %s (%s) %s; export the model anew with operator set 13 or later", r.g.NodeName(n), op, reason)
	}
	switch {
	case op == "Upsample", op == "Resize" && r.fromOpset < 11:
		if !r.resize(n) {
			return refusal("drops elements by a rounding rule of an old operator set")
		}
	case op == "Scatter":
		n.OpType = new("ScatterElements")
	case slices.Contains([]string{"Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}, op):
		return refusal("is one of ONNX's first experimental operators, which no operator set after 9 has")
	case op == "MeanVarianceNormalization" && r.fromOpset < 9:
		return refusal("has the attributes of an old operator set")
	case op == "Scan" && r.fromOpset < 9:
		return refusal("has a batch axis of its own, as in old operator sets")
	case op == "BatchNormalization" && AttributeInt(n, "spatial", 1) == 0:
		return refusal("has statistics for each element, as in old operator sets")
	case op == "BatchNormalization" && r.fromOpset < 14:
		removeAttribute(n, "spatial")
		n.Output = n.Output[:1] // the other outputs are only for training
	case op == "RoiAlign" && r.fromOpset < 16 && Attribute(n, "coordinate_transformation_mode") == nil:
		n.Attribute = append(n.Attribute, Attr("coordinate_transformation_mode", "output_half_pixel"))
	case r.fromOpset < 13 && (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax"):
		// Before operator set 13, the operator flattened its input to a matrix, with the
		// attribute axis as the first column axis, and worked on each row.
		flat := r.node("Flatten", in[:1], Attr("axis", AttributeInt(n, "axis", 1)))
		n.OpType, n.Attribute = new("Reshape"), nil
		n.Input = []string{r.node(op, []string{flat}, Attr("axis", -1)), r.node("Shape", in[:1])}
	default:
		r.attributesToInputs(n)
	}
	return nil
}

// becameInputs lists, by operator, the attributes that are inputs in TargetOpset. The first
// attribute becomes input 1, the next input 2.
var becameInputs = map[string][]string{
	"Clip": {"min", "max"}, "Dropout": {"ratio"}, "Pad": {"pads", "value"}, "ReduceSum": {"axes"}, "Reshape": {"shape"},
	"Slice": {"starts", "ends", "axes"}, "Split": {"split"}, "Squeeze": {"axes"}, "TopK": {"k"}, "Unsqueeze": {"axes"},
}

// attributesToInputs replaces the attributes in becameInputs by inputs.
func (r *upgrader) attributesToInputs(n *pb.NodeProto) {
	for i, name := range becameInputs[n.GetOpType()] {
		a := Attribute(n, name)
		if a == nil {
			continue
		}
		var v string
		switch {
		case a.F != nil || a.GetType() == pb.AttributeProto_FLOAT:
			if v = r.constant(a.GetF()); n.GetOpType() != "Dropout" {
				v = r.node("CastLike", []string{v, n.GetInput()[0]})
			}
		case a.I != nil || a.GetType() == pb.AttributeProto_INT:
			v = r.constant([]int64{a.GetI()})
		default:
			v = r.constant(append([]int64{}, a.GetInts()...))
		}
		for len(n.Input) < i+2 {
			n.Input = append(n.Input, "")
		}
		n.Input[i+1] = v
		removeAttribute(n, name)
	}
}

// removeAttribute removes the attribute with the given name from a node.
func removeAttribute(n *pb.NodeProto, attribute string) {
	n.Attribute = slices.DeleteFunc(n.GetAttribute(), func(a *pb.AttributeProto) bool { return a.GetName() == attribute })
}

// resize converts an Upsample or an old Resize. In nearest mode, old operator sets rounded
// up along axes that shrink, and down along other axes. Newer ones cannot round up like
// that, so resize returns false for nearest mode with a scale below 1.
func (r *upgrader) resize(n *pb.NodeProto) bool {
	var scales []float32
	switch a := Attribute(n, "scales"); {
	case a != nil:
		scales = a.GetFloats()
		n.Input = append(n.GetInput()[:1:1], r.constant(scales))
	case len(n.GetInput()) < 2:
		return true // the node is invalid, and ONNX Runtime will report that
	default:
		if t, ok := r.g.Const(n.GetInput()[1]); ok {
			scales, _, _ = Float32s(t, r.dir) // scales that cannot be read count as unknown
		}
	}
	mode := AttributeString(n, "mode", "nearest")
	if mode == "bilinear" {
		mode = "linear"
	}
	if mode == "nearest" && slices.ContainsFunc(scales, func(s float32) bool { return s < 1 }) {
		return false
	}
	n.OpType, n.Input = new("Resize"), []string{n.GetInput()[0], "", n.GetInput()[1]}
	n.Attribute = []*pb.AttributeProto{Attr("mode", mode), Attr("coordinate_transformation_mode", "asymmetric"), Attr("nearest_mode", "floor")}
	return true
}
