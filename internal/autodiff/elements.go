package autodiff

import (
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// otherElement are the operators, among those without an inference of their
// own, whose first output is of another type than their first input.
var otherElement = map[string]bool{
	"ArgMax": true, "ArgMin": true, "BitCast": true, "ConstantOfShape": true, "ConvInteger": true,
	"DequantizeLinear": true, "DynamicQuantizeLinear": true, "EyeLike": true, "If": true, "IsInf": true, "IsNaN": true,
	"Loop": true, "MatMulInteger": true, "Multinomial": true, "NonZero": true, "OneHot": true, "Optional": true,
	"OptionalGetElement": true, "OptionalHasElement": true, "QLinearConv": true, "QLinearMatMul": true,
	"QuantizeLinear": true, "RandomNormal": true, "RandomUniform": true, "Scan": true, "StringNormalizer": true,
	"TfIdfVectorizer": true,
}

// elementOf tells the element type of a node's first output from its first
// input.
func (t *types) elementOf(n *pb.NodeProto) (pb.TensorProto_DataType, bool) {
	if !isDefault(n.GetDomain()) || len(n.Input) == 0 || len(n.Output) == 0 || n.Output[0] == "" ||
		otherElement[n.GetOpType()] || strings.HasPrefix(n.GetOpType(), "Sequence") {
		return 0, false
	}
	elem := t.of(n.Input[0]).elem
	return elem, elem != pb.TensorProto_UNDEFINED
}

// weightsElement gives a linear layer's output the element type of its weights
// where that of its input is not known.
func (t *types) weightsElement(n *pb.NodeProto) {
	switch n.GetOpType() {
	case "Conv", "ConvTranspose", "Gemm", "MatMul":
		out := t.of(n.Output[0])
		if out.elem == pb.TensorProto_UNDEFINED && len(n.Input) > 1 {
			out.elem = t.of(n.Input[1]).elem
			t.known[n.Output[0]] = out
		}
	}
}
