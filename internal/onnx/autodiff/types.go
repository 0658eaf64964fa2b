package autodiff

import (
	"errors"
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// dimension is the size of an axis. The size n is unknown if n < 0. An unknown size may
// have a symbol. Sizes with the same symbol are equal, everywhere in the graph.
type dimension struct {
	n      int64
	symbol string
}

func (d dimension) known() bool { return d.n >= 0 }

// tensorType is the part of a tensor's type that is known.
type tensorType struct {
	elem   pb.TensorProto_DataType // UNDEFINED if it is unknown
	ranked bool                    // whether the rank is known, so that dims has one element per axis
	dims   []dimension
}

func (t tensorType) rank() (int, bool) { return len(t.dims), t.ranked }

// static returns the shape of the tensor. It returns false if a size is unknown.
func (t tensorType) static() ([]int64, bool) {
	if !t.ranked {
		return nil, false
	}
	dims := make([]int64, len(t.dims))
	for i, d := range t.dims {
		if !d.known() {
			return nil, false
		}
		dims[i] = d.n
	}
	return dims, true
}

// size returns the number of elements. It returns false if the number is unknown.
func (t tensorType) size() (int64, bool) {
	dims, ok := t.static()
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n, ok
}

// dim returns the size of an axis. A negative axis counts from the end.
func (t tensorType) dim(axis int64) (dimension, bool) {
	axis = wrapIndex(axis, int64(len(t.dims)))
	if !t.ranked || axis < 0 || axis >= int64(len(t.dims)) {
		return dimension{n: -1}, false
	}
	return t.dims[axis], true
}

// info returns a declaration of a tensor with this type.
func (t tensorType) info(name string) *pb.ValueInfoProto {
	dims := make([]any, len(t.dims))
	for i, d := range t.dims {
		dims[i] = d.n
		if !d.known() && d.symbol != "" {
			dims[i] = d.symbol
		}
	}
	v := onnx.ValueInfo(name, t.elem, dims...)
	if !t.ranked {
		v.Type.GetTensorType().Shape = nil
	}
	return v
}

// types infers the element types and shapes of tensors, node by node while the graph grows.
type types struct {
	graph         *pb.GraphProto // the graph, to which nodes are appended
	index         *onnx.Graph
	dir           string // folder of the graph's external data
	tensorTypes   map[string]tensorType
	consts        map[string]*pb.TensorProto // constants of the graph
	reshapeInput  map[string]string          // input of each reshaping operator, by output
	symbolic      map[string][]symbolicInt   // elements of small integer tensors, by tensor
	inferredNodes int                        // number of nodes whose outputs are inferred
}

// Types returns a function that declares a tensor of g with its inferred type. If the
// element type is unknown, it is UNDEFINED. dir is the folder of the graph's external data.
func Types(g *onnx.Graph, dir string) func(tensor string) *pb.ValueInfoProto {
	t := newTypes(g.Model.GetGraph(), g, dir)
	return func(tensor string) *pb.ValueInfoProto { return t.get(tensor).info(tensor) }
}

func newTypes(g *pb.GraphProto, index *onnx.Graph, dir string) *types {
	t := &types{
		graph: g, index: index, dir: dir,
		tensorTypes:  make(map[string]tensorType),
		consts:       make(map[string]*pb.TensorProto),
		reshapeInput: make(map[string]string),
		symbolic:     make(map[string][]symbolicInt),
	}
	t.declare(g)
	t.advance()
	return t
}

func (t *types) declare(g *pb.GraphProto) {
	for _, list := range [][]*pb.ValueInfoProto{g.ValueInfo, g.Output, g.Input} {
		for _, v := range list {
			declared := declaredType(v)
			for i, d := range declared.dims {
				if !d.known() && d.symbol == "" {
					// An axis without a name gets a symbol of its own, so that tensors
					// derived from it are known to have the same length.
					declared.dims[i].symbol = fmt.Sprintf("%s[%d]", v.GetName(), i)
				}
			}
			t.tensorTypes[v.GetName()] = declared
		}
	}
	for _, c := range g.Initializer {
		t.tensorTypes[c.GetName()] = typeOfTensor(c)
		t.consts[c.GetName()] = c
	}
}

func declaredType(v *pb.ValueInfoProto) tensorType {
	p := v.GetType().GetTensorType()
	t := tensorType{elem: pb.TensorProto_DataType(p.GetElemType()), ranked: p.GetShape() != nil}
	for _, d := range p.GetShape().GetDim() {
		switch d := d.GetValue().(type) {
		case *pb.TensorShapeProto_Dimension_DimValue:
			t.dims = append(t.dims, dimension{n: d.DimValue})
		case *pb.TensorShapeProto_Dimension_DimParam:
			t.dims = append(t.dims, dimension{n: -1, symbol: d.DimParam})
		default:
			t.dims = append(t.dims, dimension{n: -1})
		}
	}
	return t
}

func typeOfTensor(c *pb.TensorProto) tensorType {
	return tensorType{elem: pb.TensorProto_DataType(c.GetDataType()), ranked: true, dims: knownDims(c.GetDims()...)}
}

func knownDims(dims ...int64) []dimension {
	out := make([]dimension, len(dims))
	for i, n := range dims {
		out[i] = dimension{n: n}
	}
	return out
}

// constant registers a constant that the sweep added to the graph.
func (t *types) constant(name string, c *pb.TensorProto) {
	t.tensorTypes[name] = typeOfTensor(c)
	t.consts[name] = c
}

// advance infers the outputs of nodes that were appended since the last call.
func (t *types) advance() {
	nodes := t.graph.Node
	for ; t.inferredNodes < len(nodes); t.inferredNodes++ {
		t.infer(nodes[t.inferredNodes])
	}
}

func (t *types) infer(n *pb.NodeProto) {
	infer := inferFuncFor(n)
	if infer == nil {
		// Without an inference function, the type in the model's declaration is used. If it
		// lacks the element type, infer that from the first input.
		if out, ok := t.inferElem(n); ok && t.get(n.Output[0]).elem == pb.TensorProto_UNDEFINED {
			t.tensorTypes[n.Output[0]] = merge(tensorType{elem: out}, t.get(n.Output[0]))
		}
		return
	}
	switch n.GetOpType() {
	case "Flatten", "Reshape", "Squeeze", "Unsqueeze":
		t.reshapeInput[n.Output[0]] = n.Input[0]
	}
	for i, out := range infer(t, n) {
		if i < len(n.Output) && n.Output[i] != "" {
			t.tensorTypes[n.Output[i]] = merge(out, t.tensorTypes[n.Output[i]])
		}
	}
	t.inferElemFromWeights(n)
	t.evaluate(n)
}

// merge returns an inferred type, completed with the model's declaration.
func merge(inferred, declared tensorType) tensorType {
	if inferred.elem == pb.TensorProto_UNDEFINED {
		inferred.elem = declared.elem
	}
	if !inferred.ranked {
		inferred.ranked, inferred.dims = declared.ranked, declared.dims
		return inferred
	}
	if declared.ranked && len(declared.dims) == len(inferred.dims) {
		dims := append([]dimension(nil), inferred.dims...)
		for i, d := range dims {
			if !d.known() && (declared.dims[i].known() || d.symbol == "") {
				dims[i] = declared.dims[i]
			}
		}
		inferred.dims = dims
	}
	return inferred
}

// get returns the known type of a tensor.
func (t *types) get(tensor string) tensorType { return t.tensorTypes[tensor] }

// differentiable reports whether a tensor contains real numbers or has an unknown element
// type.
func (t *types) differentiable(tensor string) bool {
	elem := t.get(tensor).elem
	return elem == pb.TensorProto_UNDEFINED || onnx.IsFloat(elem)
}

// constInts returns the elements of an integer tensor. It returns false if they are unknown
// before the graph runs.
func (t *types) constInts(tensor string) ([]int64, bool) {
	c, ok := t.consts[tensor]
	if !ok {
		c, ok = t.index.Const(tensor)
	}
	if !ok {
		return knownInts(t.symbolic[tensor])
	}
	v, _, err := onnx.Int64s(c, t.dir)
	return v, err == nil
}

var errNotConstant = errors.New("not constant")

// axes returns the axes of a node, from the attribute "axes" or the given input. It returns
// nil if they are absent or empty.
func (t *types) axes(n *pb.NodeProto, input int) ([]int64, error) {
	if a := onnx.AttributeInts(n, "axes"); a != nil {
		return a, nil
	}
	if len(n.Input) <= input || n.Input[input] == "" {
		return nil, nil
	}
	v, ok := t.constInts(n.Input[input])
	if !ok {
		return nil, errNotConstant
	}
	if len(v) == 0 {
		return nil, nil
	}
	return v, nil
}

// span is the range of indices that a Slice selects along an axis.
type span struct{ axis, start, end, step int64 }

// clamp returns the first index and the end of the span within an axis of size elements.
// The step must not be negative.
func (s span) clamp(size int64) (start, end int64) {
	at := func(i int64) int64 {
		if i < 0 {
			i += size
		}
		return min(max(i, 0), size)
	}
	return at(s.start), at(s.end)
}

// sliceSpans returns the spans of a Slice. It returns false if they are not constant or not
// valid.
func (t *types) sliceSpans(n *pb.NodeProto, rank int) ([]span, bool) {
	get := func(input int) ([]int64, bool) {
		if len(n.Input) <= input || n.Input[input] == "" {
			return nil, true
		}
		return t.constInts(n.Input[input])
	}
	starts, ok1 := get(1)
	ends, ok2 := get(2)
	axes, ok3 := get(3)
	steps, ok4 := get(4)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(starts) != len(ends) {
		return nil, false
	}
	out := make([]span, len(starts))
	for i := range out {
		s := span{axis: int64(i), start: starts[i], end: ends[i], step: 1}
		if axes != nil {
			if i >= len(axes) {
				return nil, false
			}
			s.axis = axes[i]
		}
		s.axis = wrapIndex(s.axis, int64(rank))
		if steps != nil {
			if i >= len(steps) {
				return nil, false
			}
			s.step = steps[i]
		}
		if s.axis < 0 || s.axis >= int64(rank) || s.step == 0 {
			return nil, false
		}
		out[i] = s
	}
	return out, true
}

// changesElem lists operators whose first output can have a different element type from
// their first input. inferElem returns false for them.
var changesElem = map[string]bool{
	"ArgMax": true, "ArgMin": true, "BitCast": true, "ConstantOfShape": true, "ConvInteger": true,
	"DequantizeLinear": true, "DynamicQuantizeLinear": true, "EyeLike": true, "If": true, "IsInf": true, "IsNaN": true,
	"Loop": true, "MatMulInteger": true, "Multinomial": true, "NonZero": true, "OneHot": true, "Optional": true,
	"OptionalGetElement": true, "OptionalHasElement": true, "QLinearConv": true, "QLinearMatMul": true,
	"QuantizeLinear": true, "RandomNormal": true, "RandomUniform": true, "Scan": true, "StringNormalizer": true,
	"TfIdfVectorizer": true,
}

// inferElem returns the element type of a node's first output if it is the type of its
// first input.
func (t *types) inferElem(n *pb.NodeProto) (pb.TensorProto_DataType, bool) {
	if len(n.Input) == 0 || len(n.Output) == 0 || n.Output[0] == "" || changesElem[n.GetOpType()] ||
		strings.HasPrefix(n.GetOpType(), "Sequence") {
		return 0, false
	}
	elem := t.get(n.Input[0]).elem
	if n.GetDomain() == runtimeDomain {
		return elem, onnx.IsFloat(elem)
	}
	return elem, onnx.IsDefault(n.GetDomain()) && elem != pb.TensorProto_UNDEFINED
}

// inferElemFromWeights sets the element type of a linear layer's output from its weights,
// if the type of its input is unknown.
func (t *types) inferElemFromWeights(n *pb.NodeProto) {
	switch n.GetOpType() {
	case "Conv", "ConvTranspose", "Gemm", "MatMul":
		out := t.get(n.Output[0])
		if out.elem == pb.TensorProto_UNDEFINED && len(n.Input) > 1 {
			out.elem = t.get(n.Input[1]).elem
			t.tensorTypes[n.Output[0]] = out
		}
	}
}
