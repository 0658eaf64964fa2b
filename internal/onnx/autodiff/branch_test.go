package autodiff

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// branchCases choose a branch by what is known before the graph runs.
var branchCases = []graphCase{
	{name: "If by a size", shapes: matrix, build: func(b *onnx.Builder, x []string) string {
		y := b.Node("Reshape", []string{b.Node("Mul", []string{x[0], x[0]}), b.Const(ints(1, 3, 4))})
		single := b.Node("Equal", []string{b.Node("Gather", []string{b.Node("Shape", []string{y}), b.Const(ints(0))}), b.Const(ints(1))})
		return b.Node("If", []string{single},
			onnx.Attr("then_branch", body([]any{ints(0)}, &pb.NodeProto{OpType: proto.String("Squeeze"), Input: []string{y, "c0"}})),
			onnx.Attr("else_branch", body(nil, &pb.NodeProto{OpType: proto.String("Identity"), Input: []string{y}})))
	}},
	{name: "If not", shapes: twins, build: func(b *onnx.Builder, x []string) string {
		y := b.Node("If", []string{b.Const(false)},
			onnx.Attr("then_branch", body(nil, &pb.NodeProto{OpType: proto.String("Identity"), Input: []string{x[0]}})),
			onnx.Attr("else_branch", body(nil,
				&pb.NodeProto{OpType: proto.String("Tanh"), Input: []string{x[0]}, Output: []string{"h"}},
				&pb.NodeProto{OpType: proto.String("Mul"), Input: []string{"h", x[1]}})))
		return b.Node("Add", []string{y, b.Node("Exp", x[:1])})
	}},
}

// body is a graph with constants c0, c1, … whose last node makes its output, a
// double matrix.
func body(constants []any, nodes ...*pb.NodeProto) *pb.GraphProto {
	g := &pb.GraphProto{Name: proto.String("body")}
	for i, c := range constants {
		v := onnx.Tensor(c)
		v.Name = proto.String(fmt.Sprintf("c%d", i))
		g.Initializer = append(g.Initializer, v)
	}
	out := "out of " + nodes[0].GetOpType()
	nodes[len(nodes)-1].Output = []string{out}
	g.Node = nodes
	g.Output = []*pb.ValueInfoProto{onnx.ValueInfo(out, pb.TensorProto_DOUBLE, -1, -1)}
	return g
}
