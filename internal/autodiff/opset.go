package autodiff

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// since is the operator set that an operator came with, where that is later
// than minOpset.
var since = map[string]int64{
	"CastLike": 15, "Gelu": 20, "GridSample": 16, "GroupNormalization": 18, "HardSwish": 14, "LayerNormalization": 17,
	"Mish": 18, "Trilu": 14,
}

// sinceOf is the operator set that a node of a gradient needs.
func sinceOf(n *pb.NodeProto) int64 {
	switch n.GetOpType() {
	case "ScatterElements", "ScatterND":
		switch onnx.AttributeString(n, "reduction", "none") {
		case "none":
		case "add", "mul":
			return 16
		default:
			return 18
		}
	case "Pad":
		if len(n.Input) > 3 {
			return 18
		}
	}
	return max(since[n.GetOpType()], minOpset)
}

// checkOpset says whether the nodes of a gradient are in the operator set.
func (g *tape) checkOpset(nodes []*pb.NodeProto) error {
	for _, n := range nodes {
		if need := sinceOf(n); isDefault(n.GetDomain()) && need > g.b.Opset() {
			return fmt.Errorf("%w: its gradient needs %s of operator set %d, the model has %d", ErrOpset, n.GetOpType(), need, g.b.Opset())
		}
	}
	return nil
}

// opset is the operator set of the graph that is differentiated, by which its
// nodes are to be understood. What a rule emits is of minOpset or later.
func (g *tape) opset() int64 { return g.index.Opset() }
