package featurize

import (
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

const (
	// Names of tensors that are added to a graph. They start with "attach/" to avoid
	// conflicts with the model's own names.
	inputName    = "attach/input"
	featuresName = "attach/features"
	logitsName   = "attach/logits"
)

// viewNames returns the names of the tensors that hold views of φ, the logits and the earlier
// layers.
func viewNames(views []view) []string {
	names := []string{featuresName, logitsName}
	for i := range views {
		names = append(names, fmt.Sprintf("attach/layer/%d", i))
	}
	return names[:len(views)]
}

// view describes how a tensor of the graph is read as n rows of floats.
type view struct {
	tensor string
	// scale and zero name the scale and the zero point that convert 8-bit integers to
	// floats. They are "" if the tensor holds floats.
	scale, zero string
	// If meanOverSpace is set, all axes but the first two (n×h×…) are averaged.
	meanOverSpace bool
	// If meanOverTokens is set, all axes but the first and the last (n×…×h) are averaged.
	// These are rank−2 axes.
	meanOverTokens bool
	rank           int
	// mask is an input of shape n×T, or "". It marks which of the T tokens of a row count
	// in the average over n×T×h.
	mask string
	// If concat is not nil, the view concatenates these tensors, and tensor is only the
	// name of the result.
	concat []string
	// If isLog is set, the view holds log(max(p, m)/m) of probabilities p, where m is
	// minProbability. The lower bound m avoids infinities, and dividing by m avoids
	// negative numbers.
	isLog bool
}

// minProbability, e⁻¹⁶, is a lower bound on probabilities before their logarithm is taken.
// Smaller probabilities are raised to it.
const minProbability = 1.1253517e-07

// sources returns the tensors that a view is computed from.
func (v view) sources() []string {
	if v.concat != nil {
		return v.concat
	}
	return []string{v.tensor, v.scale, v.zero, v.mask}
}

// node returns a graph node with one output.
func node(op string, in []string, out string, attrs ...*pb.AttributeProto) *pb.NodeProto {
	return &pb.NodeProto{OpType: new(op), Name: new("attach/" + op + "/" + out), Input: in, Output: []string{out}, Attribute: attrs}
}

// nodes returns the nodes that compute the view as a float32 tensor with the name out.
func (v view) nodes(out string) []*pb.NodeProto {
	var list []*pb.NodeProto
	if v.concat != nil {
		var parts []string
		for i, t := range v.concat {
			part := fmt.Sprintf("%s/beside/%d", out, i)
			list = append(list, view{tensor: t}.nodes(part)...)
			parts = append(parts, part)
		}
		return append(list, node("Concat", parts, out, onnx.Attr("axis", 1)))
	}
	at := v.tensor
	add := func(op string, rest []string, attrs ...*pb.AttributeProto) {
		name := fmt.Sprintf("%s/%d", out, len(list))
		list = append(list, node(op, append([]string{at}, rest...), name, attrs...))
		at = name
	}
	if v.scale != "" {
		rest := []string{v.scale}
		if v.zero != "" {
			rest = append(rest, v.zero)
		}
		add("DequantizeLinear", rest)
	}
	add("Cast", nil, onnx.Attr("to", pb.TensorProto_FLOAT))
	if v.isLog {
		floorName := out + "/floor"
		list = append(list, node("Constant", nil, floorName, onnx.Attr("value", onnx.Tensor([]float32{minProbability}))))
		add("Max", []string{floorName})
		add("Div", []string{floorName})
		add("Log", nil)
	}
	if v.mask != "" {
		// Each row of the mask is divided by its sum, so that the product with it is a
		// mean over the positions that the mask marks with 1.
		weights := out + "/mask"
		list = append(list,
			node("Cast", []string{v.mask}, weights+"/float32", onnx.Attr("to", pb.TensorProto_FLOAT)),
			node("LpNormalization", []string{weights + "/float32"}, weights+"/share", onnx.Attr("p", 1), onnx.Attr("axis", 1)),
			node("Constant", nil, weights+"/shape", onnx.Attr("value", onnx.Tensor([]int64{0, 1, -1}))),
			node("Reshape", []string{weights + "/share", weights + "/shape"}, weights),
			node("MatMul", []string{weights, at}, out+"/mean"))
		at = out + "/mean"
	} else if v.meanOverTokens && v.rank > 2 {
		perm := []int64{0, int64(v.rank - 1)}
		for i := 1; i < v.rank-1; i++ {
			perm = append(perm, int64(i))
		}
		add("Transpose", nil, onnx.Attr("perm", perm))
	}
	if v.meanOverSpace || v.meanOverTokens && v.rank > 2 && v.mask == "" {
		add("GlobalAveragePool", nil)
	}
	list = append(list, node("Flatten", []string{at}, out, onnx.Attr("axis", 1)))
	return list
}

// exposeViews returns a model that computes views from the inputs, and also contains the
// nodes in extra. Numeric inputs are fed as float32. Other nodes that the views do not need
// are left out.
func exposeViews(g *onnx.Graph, in inputs, views []view, names []string, extra ...*pb.NodeProto) *pb.ModelProto {
	infos, casts := in.declare(g)
	body := &pb.GraphProto{Input: infos}
	var needed []string
	for i, v := range views {
		body.Node = append(body.Node, v.nodes(names[i])...)
		body.Output = append(body.Output, onnx.ValueInfo(names[i], pb.TensorProto_FLOAT, -1, -1))
		needed = append(needed, v.sources()...)
	}
	for _, n := range extra {
		body.Node = append(body.Node, n)
		needed = append(needed, n.GetInput()...)
	}
	return subgraph(g, casts, body, needed...)
}

// declare declares the model's inputs, with float32 for all numeric types. It returns the
// declarations and the nodes that cast the inputs to the types that the model takes.
func (list inputs) declare(g *onnx.Graph) (infos []*pb.ValueInfoProto, casts []*pb.NodeProto) {
	for _, in := range list {
		info := g.Type(in.name)
		if in.feedName != in.name {
			info = proto.CloneOf(info)
			info.Name = new(in.feedName)
			info.GetType().GetTensorType().ElemType = new(int32(pb.TensorProto_FLOAT))
			casts = append(casts, node("Cast", []string{in.feedName}, in.name, onnx.Attr("to", pb.TensorProto_DataType(in.elemType))))
		}
		infos = append(infos, info)
	}
	return infos, casts
}

// ancestors returns the given tensors and all tensors that they are computed from.
func ancestors(g *onnx.Graph, tensors ...string) map[string]bool {
	seen := make(map[string]bool)
	stack := slices.Clone(tensors)
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if t == "" || seen[t] {
			continue
		}
		seen[t] = true
		if n := g.Producer(t); n != nil {
			stack = append(stack, onnx.Reads(n)...)
		}
	}
	return seen
}

// readers yields the nodes that read a tensor directly, or through nodes for which follow
// is true.
func readers(g *onnx.Graph, tensor string, follow func(*pb.NodeProto) bool) iter.Seq[*pb.NodeProto] {
	return func(yield func(*pb.NodeProto) bool) {
		seen := map[string]bool{"": true}
		for queue := []string{tensor}; len(queue) > 0; queue = queue[1:] {
			if seen[queue[0]] {
				continue
			}
			seen[queue[0]] = true
			for _, n := range g.Consumers(queue[0]) {
				if !yield(n) {
					return
				}
				if follow(n) {
					queue = append(queue, n.GetOutput()...)
				}
			}
		}
	}
}

// subgraph returns the part of a model that computes the needed tensors. It contains the
// nodes in casts, then the needed nodes of the model, then the nodes of body. Its inputs
// and outputs are the inputs and outputs of body. The original model is neither copied nor
// changed.
func subgraph(g *onnx.Graph, casts []*pb.NodeProto, body *pb.GraphProto, needed ...string) *pb.ModelProto {
	original := g.Model.GetGraph()
	used := ancestors(g, needed...)
	graph := &pb.GraphProto{Name: new("attach"), Input: body.Input, Output: body.Output, Node: casts}
	for _, n := range original.GetNode() {
		if slices.ContainsFunc(n.GetOutput(), func(t string) bool { return used[t] }) {
			graph.Node = append(graph.Node, n)
		}
	}
	graph.Node = append(graph.Node, body.GetNode()...)
	fed := make(map[string]bool) // tensors that the caller feeds, which replace defaults
	for _, v := range body.GetInput() {
		fed[v.GetName()] = true
	}
	for _, n := range casts {
		fed[n.GetOutput()[0]] = true
	}
	initialised := make(map[string]bool)
	for _, t := range original.GetInitializer() {
		if used[t.GetName()] && !fed[t.GetName()] {
			initialised[t.GetName()] = true
			graph.Initializer = append(graph.Initializer, t)
		}
	}
	for _, t := range original.GetSparseInitializer() {
		if used[t.GetValues().GetName()] {
			graph.SparseInitializer = append(graph.SparseInitializer, t)
		}
	}
	if g.Model.GetIrVersion() < 4 {
		for _, v := range original.GetInput() {
			if initialised[v.GetName()] {
				graph.Input = append(graph.Input[:len(graph.Input):len(graph.Input)], v)
			}
		}
	}
	graph.QuantizationAnnotation = original.GetQuantizationAnnotation()
	return &pb.ModelProto{
		IrVersion:   g.Model.IrVersion,
		OpsetImport: g.Model.GetOpsetImport(),
		Functions:   g.Model.GetFunctions(),
		Graph:       graph,
	}
}
