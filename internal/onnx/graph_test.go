package onnx

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func newNode(kind string, in, out []string, attrs ...*pb.AttributeProto) *pb.NodeProto {
	return &pb.NodeProto{OpType: proto.String(kind), Input: in, Output: out, Attribute: attrs}
}

func indexGraph(t *testing.T, ir int64, g *pb.GraphProto) *Graph {
	t.Helper()
	if len(g.Output) == 0 {
		g.Output = []*pb.ValueInfoProto{ValueInfo("y", pb.TensorProto_FLOAT)}
	}
	b, err := proto.Marshal(&pb.ModelProto{IrVersion: proto.Int64(ir), OpsetImport: []*pb.OperatorSetIdProto{{Version: proto.Int64(13)}}, Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	x, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func withName(name string, t *pb.TensorProto) *pb.TensorProto {
	t.Name = proto.String(name)
	return t
}

func opTypes(nodes []*pb.NodeProto) []string {
	var s []string
	for _, n := range nodes {
		s = append(s, n.GetOpType())
	}
	return s
}

func TestInputsWithoutInitializers(t *testing.T) {
	for _, ir := range []int64{3, 4, 13} {
		g := indexGraph(t, ir, &pb.GraphProto{
			Input:       []*pb.ValueInfoProto{ValueInfo("w", pb.TensorProto_FLOAT, 2), ValueInfo("x", pb.TensorProto_FLOAT, "n", 2)},
			Initializer: []*pb.TensorProto{withName("w", Tensor([]float32{1, 2}))},
			Node:        []*pb.NodeProto{newNode("Add", []string{"x", "w"}, []string{"y"})},
		})
		in := g.Inputs()
		if len(in) != 1 || in[0].GetName() != "x" {
			t.Errorf("IR %d: inputs %v, want only x", ir, in)
		}
		if _, ok := g.Const("w"); !ok {
			t.Errorf("IR %d: w is not constant", ir)
		}
		if _, ok := g.Const("x"); ok {
			t.Errorf("IR %d: x is constant", ir)
		}
	}
}

func TestConst(t *testing.T) {
	g := indexGraph(t, 8, &pb.GraphProto{
		Node: []*pb.NodeProto{
			newNode("Constant", nil, []string{"t"}, Attr("value", Tensor([]float32{1, 2, 3}))),
			newNode("Constant", nil, []string{"f"}, Attr("value_float", 2.5)),
			newNode("Constant", nil, []string{"fs"}, Attr("value_floats", []float32{4, 5})),
			newNode("Constant", nil, []string{"i"}, Attr("value_int", 7)),
			newNode("Constant", nil, []string{"is"}, Attr("value_ints", []int64{8, 9})),
			newNode("Identity", []string{"t"}, []string{"t1"}),
			newNode("Identity", []string{"t1"}, []string{"t2"}),
			newNode("Identity", []string{"loop2"}, []string{"loop1"}),
			newNode("Identity", []string{"loop1"}, []string{"loop2"}),
			newNode("Relu", []string{"t"}, []string{"y"}),
		},
	})
	for name, want := range map[string][]float32{"t": {1, 2, 3}, "f": {2.5}, "fs": {4, 5}, "i": {7}, "is": {8, 9}, "t1": {1, 2, 3}, "t2": {1, 2, 3}} {
		c, ok := g.Const(name)
		if !ok {
			t.Errorf("%s is not constant", name)
			continue
		}
		got, _, err := Float32s(c, "")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v (%v), want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"y", "loop1", "nowhere"} {
		if _, ok := g.Const(name); ok {
			t.Errorf("%s is constant", name)
		}
	}
}

// TestLongIdentities checks that a long chain of Identity nodes is indexed in linear time.
// Following the chain from every tensor would take minutes.
func TestLongIdentities(t *testing.T) {
	g := &pb.GraphProto{Initializer: []*pb.TensorProto{withName("w0", Tensor([]float32{1}))}}
	const n = 40_000
	for i := range n {
		g.Node = append(g.Node,
			newNode("Identity", []string{fmt.Sprint("x", i)}, []string{fmt.Sprint("x", i+1)}),
			newNode("Identity", []string{fmt.Sprint("w", i)}, []string{fmt.Sprint("w", i+1)}))
	}
	slices.Reverse(g.Node[n:])
	started := time.Now()
	all := indexGraph(t, 8, g)
	for i := range n + 1 {
		_, x := all.Const(fmt.Sprint("x", i))
		_, w := all.Const(fmt.Sprint("w", i))
		if x || !w {
			t.Fatalf("tensor %d: constant %v and %v, want false and true", i, x, w)
		}
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestConsumersOfSubgraphs(t *testing.T) {
	inner := &pb.GraphProto{
		Node: []*pb.NodeProto{
			newNode("Mul", []string{"outer", "local"}, []string{"local2"}),
			newNode("If", []string{"c"}, []string{"o"}, Attr("then_branch", &pb.GraphProto{
				Node:   []*pb.NodeProto{newNode("Neg", []string{"deep"}, []string{"z"}), newNode("Neg", []string{"local2"}, []string{"z2"})},
				Output: []*pb.ValueInfoProto{ValueInfo("z", pb.TensorProto_FLOAT)},
			})),
		},
		Initializer: []*pb.TensorProto{withName("local", Tensor([]float32{1}))},
		Output:      []*pb.ValueInfoProto{ValueInfo("o", pb.TensorProto_FLOAT), ValueInfo("passed", pb.TensorProto_FLOAT)},
	}
	g := indexGraph(t, 8, &pb.GraphProto{
		Input: []*pb.ValueInfoProto{ValueInfo("outer", pb.TensorProto_FLOAT)},
		Node: []*pb.NodeProto{
			newNode("Relu", []string{"outer"}, []string{"deep"}),
			newNode("Loop", []string{"n", "c"}, []string{"y"}, Attr("body", inner)),
			newNode("Add", []string{"outer", "outer"}, []string{"local"}),
		},
	})
	for tensor, want := range map[string][]string{
		"outer": {"Relu", "Loop", "Add"}, "deep": {"Loop"}, "passed": {"Loop"}, "c": {"Loop"}, "local": nil, "local2": nil,
	} {
		if got := opTypes(g.Consumers(tensor)); !slices.Equal(got, want) {
			t.Errorf("%s is read by %v, want %v", tensor, got, want)
		}
	}
	if p := g.Producer("deep"); p.GetOpType() != "Relu" {
		t.Errorf("deep is produced by %v", p)
	}
	if p := g.Producer("outer"); p != nil {
		t.Errorf("an input is produced by %v", p)
	}
}

func TestNodeName(t *testing.T) {
	n := newNode("Neg", []string{"x"}, []string{"y"})
	n.Name = proto.String("flip")
	g := indexGraph(t, 8, &pb.GraphProto{Node: []*pb.NodeProto{newNode("Relu", []string{"x"}, []string{"a"}), n}})
	for tensor, want := range map[string]string{"a": "Relu_0", "y": "flip"} {
		if got := g.NodeName(g.Producer(tensor)); got != want {
			t.Errorf("node of %s is %q, want %q", tensor, got, want)
		}
	}
}

func TestOpset(t *testing.T) {
	m := &pb.ModelProto{IrVersion: proto.Int64(8), Graph: &pb.GraphProto{Output: []*pb.ValueInfoProto{ValueInfo("y", pb.TensorProto_FLOAT)}},
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String("com.microsoft"), Version: proto.Int64(1)}, {Domain: proto.String("ai.onnx"), Version: proto.Int64(26)}}}
	g, err := Index(m)
	if err != nil || g.Opset() != 26 {
		t.Errorf("opset %d (%v), want 26", g.Opset(), err)
	}
}
