package double

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// small is the number of elements up to which weights are converted here.
// Larger ones are cast by the graph, which the runtime does once, so that the
// serialised model does not grow.
const small = 4096

// Promote makes the real numbers of a model double, in place: inputs, outputs,
// weights, constants and what they are cast to. Names stay. External data are
// in dir. The error is an *UnsupportedError for a node that Lower could not
// replace.
func Promote(m *pb.ModelProto, dir string) error {
	b := onnx.Extend(m)
	b.SetScope("double/")
	p := &promotion{b: b, dir: dir}
	return p.graph(m.Graph)
}

type promotion struct {
	b   *onnx.Builder
	dir string
}

func (p *promotion) graph(g *pb.GraphProto) error {
	if len(g.GetSparseInitializer()) > 0 {
		return fmt.Errorf("sparse weights (%q) cannot be made double", g.SparseInitializer[0].GetValues().GetName())
	}
	for _, list := range [][]*pb.ValueInfoProto{g.Input, g.Output, g.ValueInfo} {
		for _, v := range list {
			if t := v.GetType().GetTensorType(); single(t.GetElemType()) {
				t.ElemType = proto.Int32(int32(pb.TensorProto_DOUBLE))
			}
		}
	}
	constants := p.constants(g)
	sizes := arithmeticOf(g)
	narrow := sizes.inputs(g)
	for _, n := range g.Node {
		if err := check(n); err != nil {
			return err
		}
		if sizes.stays[n] {
			continue
		}
		if err := p.attributes(n); err != nil {
			return err
		}
	}
	casts, err := p.weights(g)
	if err != nil {
		return err
	}
	p.slots(g, constants)
	p.narrow(g, narrow)
	g.Node = append(casts, g.Node...)
	return nil
}

// single says that an element type is of real numbers below double precision.
func single(elem int32) bool {
	switch pb.TensorProto_DataType(elem) {
	case pb.TensorProto_FLOAT, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16:
		return true
	}
	return false
}

// weights makes the initializers double, or casts of them.
func (p *promotion) weights(g *pb.GraphProto) (casts []*pb.NodeProto, err error) {
	for i, t := range g.Initializer {
		if !single(t.GetDataType()) {
			continue
		}
		n, err := onnx.Elements(t)
		if err != nil {
			return nil, err
		}
		if n <= small {
			if g.Initializer[i], err = p.double(t); err != nil {
				return nil, err
			}
			continue
		}
		// The cast has the name, and the initializer another.
		name := t.GetName()
		narrow := proto.String(p.b.Fresh("single/" + name))
		t.Name = narrow
		for _, v := range g.Input { // below IR 4 an initializer is an input too
			if v.GetName() == name {
				v.Name = narrow
				v.GetType().GetTensorType().ElemType = proto.Int32(t.GetDataType())
			}
		}
		casts = append(casts, cast(t.GetName(), name, pb.TensorProto_DOUBLE, p.b.Fresh("Cast")))
	}
	return casts, nil
}

func cast(from, to string, elem pb.TensorProto_DataType, name string) *pb.NodeProto {
	return &pb.NodeProto{OpType: proto.String("Cast"), Name: proto.String(name), Input: []string{from}, Output: []string{to},
		Attribute: []*pb.AttributeProto{onnx.Attr("to", elem)}}
}

func (p *promotion) double(t *pb.TensorProto) (*pb.TensorProto, error) {
	v, dims, err := onnx.Float64s(t, p.dir)
	if err != nil {
		return nil, err
	}
	wide := onnx.Tensor(v, dims...)
	wide.Dims = slices.Clone(t.GetDims()) // none for a scalar
	wide.Name = t.Name
	return wide, nil
}

// attributes makes what the attributes of a node say of real numbers double.
func (p *promotion) attributes(n *pb.NodeProto) (err error) {
	for i, a := range n.Attribute {
		for _, body := range slices.Concat([]*pb.GraphProto{a.GetG()}, a.GetGraphs()) {
			if body != nil {
				if err := p.graph(body); err != nil {
					return err
				}
			}
		}
		switch name := a.GetName(); {
		case name == "value" && a.T != nil && single(a.T.GetDataType()):
			if a.T, err = p.double(a.T); err != nil {
				return unsupported(n, "%v", err)
			}
		case name == "value_float":
			n.Attribute[i] = onnx.Attr("value", onnx.Tensor(float64(a.GetF())))
		case name == "value_floats":
			wide := make([]float64, len(a.GetFloats()))
			for j, f := range a.GetFloats() {
				wide[j] = float64(f)
			}
			n.Attribute[i] = onnx.Attr("value", onnx.Tensor(wide))
		case name == "sparse_value":
			return unsupported(n, "its value is sparse")
		case (name == "to" || name == "dtype") && single(int32(a.GetI())):
			a.I = proto.Int64(int64(pb.TensorProto_DOUBLE))
		}
	}
	if n.GetOpType() == "ConstantOfShape" && onnx.Attribute(n, "value") == nil {
		n.Attribute = append(n.Attribute, onnx.Attr("value", onnx.Tensor([]float64{0})))
	}
	return nil
}

// narrow casts inputs of nodes that stay in single precision back to it, which
// is exact: they came from there.
func (p *promotion) narrow(g *pb.GraphProto, inputs map[*pb.NodeProto][]int) {
	var out []*pb.NodeProto
	for _, n := range g.Node {
		for _, i := range inputs[n] {
			name := p.b.Fresh("single/" + n.Input[i])
			out = append(out, cast(n.Input[i], name, pb.TensorProto_FLOAT, p.b.Fresh("Cast")))
			n.Input[i] = name
		}
		out = append(out, n)
	}
	g.Node = out
}

// slot is the input of a node that is single by definition, or −1.
func slot(n *pb.NodeProto) int {
	if n.GetOpType() != "Resize" || domainOf(n) != "" || len(n.Input) < 3 || n.Input[2] == "" {
		return -1
	}
	return 2
}

// constants are the values of slots, before they are made double.
func (p *promotion) constants(g *pb.GraphProto) map[string]*pb.TensorProto {
	index := onnx.Extend(&pb.ModelProto{Graph: g}).Index()
	values := make(map[string]*pb.TensorProto)
	for _, n := range g.Node {
		if i := slot(n); i >= 0 {
			if t, ok := index.Const(n.Input[i]); ok && t.GetDataType() == int32(pb.TensorProto_FLOAT) {
				values[n.Input[i]] = proto.CloneOf(t)
			}
		}
	}
	return values
}

// slots gives each slot its value as it was, or else casts what was made
// double.
func (p *promotion) slots(g *pb.GraphProto, constants map[string]*pb.TensorProto) {
	var out []*pb.NodeProto
	for _, n := range g.Node {
		if i := slot(n); i >= 0 {
			from := n.Input[i]
			name := p.b.Fresh("single/" + from)
			if t := constants[from]; t != nil {
				out = append(out, &pb.NodeProto{OpType: proto.String("Constant"), Name: proto.String(p.b.Fresh("Constant")),
					Output: []string{name}, Attribute: []*pb.AttributeProto{onnx.Attr("value", t)}})
			} else {
				out = append(out, cast(from, name, pb.TensorProto_FLOAT, p.b.Fresh("Cast")))
			}
			n.Input[i] = name
		}
		out = append(out, n)
	}
	g.Node = out
}
