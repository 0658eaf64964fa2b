package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// scatter appends a ScatterElements or a ScatterND. The runtime's CPU provider
// has none that adds in half precision, so that is done in single precision.
func (g *tape) scatter(op, data, indices, updates string, attrs ...*pb.AttributeProto) string {
	adds := slices.ContainsFunc(attrs, func(a *pb.AttributeProto) bool { return a.GetName() == "reduction" })
	if !adds || !isHalf(g.types.of(updates).elem) {
		return g.nodeWith(op, []string{data, indices, updates}, attrs...)
	}
	sum := g.nodeWith(op, []string{g.single(data), indices, g.single(updates)}, attrs...)
	return g.castTo(sum, updates)
}

// scatterAdd adds updates to data at the coordinates that the last axis of
// indices holds.
func (g *tape) scatterAdd(data, indices, updates string) string {
	return g.scatter("ScatterND", data, indices, updates, onnx.Attr("reduction", "add"))
}

func isHalf(t pb.TensorProto_DataType) bool {
	return t == pb.TensorProto_FLOAT16 || t == pb.TensorProto_BFLOAT16
}

// single is x in single precision where it is in half precision, and x
// elsewhere.
func (g *tape) single(x string) string {
	if isHalf(g.types.of(x).elem) {
		return g.castElem(x, pb.TensorProto_FLOAT)
	}
	return x
}
