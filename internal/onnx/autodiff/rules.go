package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// rules lists the rules of operators in the default domain. To support a new operator, add
// a rule, a line in this table and a case in the tests. Also add its shape to inferFuncs.
// Otherwise its gradient computes shapes at run time.
var rules = map[string]rule{
	"Abs":                   gradAbs,
	"Add":                   gradSum,
	"AveragePool":           gradAveragePool,
	"BatchNormalization":    gradBatchNormalization,
	"Cast":                  gradCast,
	"CastLike":              gradCast,
	"Celu":                  pointwiseRule(slopeCelu),
	"Clip":                  gradClip,
	"Concat":                gradConcat,
	"Conv":                  gradConv,
	"ConvInteger":           gradConvInteger,
	"ConvTranspose":         gradConvTranspose,
	"Cos":                   pointwiseRule(slopeCos),
	"CumSum":                gradCumSum,
	"DepthToSpace":          gradDepthToSpace,
	"DequantizeLinear":      gradDequantizeLinear,
	"Div":                   gradDiv,
	"Dropout":               gradDropout,
	"DynamicQuantizeLinear": gradDynamicQuantizeLinear,
	"Einsum":                gradEinsum,
	"Elu":                   pointwiseRule(slopeElu),
	"Erf":                   pointwiseRule(slopeErf),
	"Exp":                   gradExp,
	"Expand":                gradExpand,
	"Flatten":               gradReshape,
	"Gather":                gradGather,
	"GatherElements":        gradGatherElements,
	"GatherND":              gradGatherND,
	"Gelu":                  pointwiseRule(slopeGelu),
	"Gemm":                  gradGemm,
	"GlobalAveragePool":     gradGlobalAveragePool,
	"GlobalMaxPool":         gradGlobalMaxPool,
	"GroupNormalization":    gradGroupNormalization,
	"HardSigmoid":           gradHardSigmoid,
	"HardSwish":             pointwiseRule(slopeHardSwish),
	"Identity":              gradIdentity,
	"InstanceNormalization": gradInstanceNormalization,
	"LRN":                   gradLRN,
	"LayerNormalization":    gradLayerNormalization(true),
	"LeakyRelu":             pointwiseRule(slopeLeakyRelu),
	"Log":                   gradLog,
	"LogSoftmax":            gradLogSoftmax,
	"LpNormalization":       gradLpNormalization,
	"MatMul":                gradMatMul,
	"MatMulInteger":         gradMatMulInteger,
	"Max":                   gradExtremum("GreaterOrEqual"),
	"MaxPool":               gradMaxPool,
	"Mean":                  gradMean,
	"Min":                   gradExtremum("LessOrEqual"),
	"Mish":                  pointwiseRule(slopeMish),
	"Mul":                   gradMul,
	"Neg":                   gradNeg,
	"PRelu":                 gradPRelu,
	"Pad":                   gradPad,
	"Pow":                   gradPow,
	"QuantizeLinear":        gradQuantizeLinear,
	"RMSNormalization":      gradLayerNormalization(false),
	"Reciprocal":            gradReciprocal,
	"ReduceL1":              reductionRule(false, l1Gradient),
	"ReduceL2":              reductionRule(false, l2Gradient),
	"ReduceLogSumExp":       reductionRule(true, logSumExpGradient),
	"ReduceMax":             reductionRule(true, extremumGradient),
	"ReduceMean":            gradReduceMean,
	"ReduceMin":             reductionRule(true, extremumGradient),
	"ReduceSum":             gradReduceSum,
	"ReduceSumSquare":       reductionRule(false, sumSquareGradient),
	"Relu":                  gradRelu,
	"Reshape":               gradReshape,
	"Resize":                gradResize,
	"ScatterElements":       gradScatterElements,
	"ScatterND":             gradScatterND,
	"Selu":                  pointwiseRule(slopeSelu),
	"Sigmoid":               gradSigmoid,
	"Sin":                   pointwiseRule(slopeSin),
	"Slice":                 gradSlice,
	"Softmax":               gradSoftmax,
	"Softplus":              gradSoftplus,
	"Softsign":              pointwiseRule(slopeSoftsign),
	"SpaceToDepth":          gradSpaceToDepth,
	"Split":                 gradSplit,
	"Sqrt":                  gradSqrt,
	"Squeeze":               gradReshape,
	"Sub":                   gradSub,
	"Sum":                   gradSum,
	"Swish":                 pointwiseRule(slopeSwish),
	"Tanh":                  gradTanh,
	"Tile":                  gradTile,
	"TopK":                  gradTopK,
	"Transpose":             gradTranspose,
	"Trilu":                 gradTrilu,
	"Unsqueeze":             gradReshape,
	"Where":                 gradWhere,
}

// runtimeDomain is the domain of ONNX Runtime's own operators. Its optimizer and quantizer
// add them to models. They have no rules.
const runtimeDomain = "com.microsoft"

// classicalDomain is the domain of operators of classical machine learning, for example to
// preprocess tables.
const classicalDomain = "ai.onnx.ml"

// classicalRules lists the rules of operators in classicalDomain.
var classicalRules = map[string]rule{
	"Normalizer": gradNormalizer,
	"Scaler":     gradScaler,
}

// ruleOf returns the rule of a node's operator, or nil if the operator has none.
func (g *tape) ruleOf(n *pb.NodeProto) rule {
	switch {
	case onnx.IsDefault(n.GetDomain()):
		return rules[n.GetOpType()]
	case n.GetDomain() == classicalDomain:
		return classicalRules[n.GetOpType()]
	}
	return nil
}

// unsupportedReasons explains why an operator has no rule. Errors contain the reason.
var unsupportedReasons = map[string]string{
	"If":            "it runs one of two graphs of its own",
	"Loop":          "how often its body runs is found at run time",
	"QLinearConv":   needsQDQ,
	"QLinearMatMul": needsQDQ,
	"Scan":          "it runs a graph of its own for each element",
}

const needsQDQ = "it computes with integers throughout; quantize the network with pairs of QuantizeLinear and DequantizeLinear (QDQ)"

// unsupportedReason returns why a node's operator has no rule, or "" if there is no
// particular reason.
func unsupportedReason(n *pb.NodeProto) string {
	if n.GetDomain() == runtimeDomain {
		return "it is ONNX Runtime's own; take the model from before ONNX Runtime optimized it"
	}
	return unsupportedReasons[n.GetOpType()]
}

// stopsGradient reports whether the outputs of a node are constant almost everywhere or
// depend only on the shapes of its inputs. Their gradient is zero.
func stopsGradient(n *pb.NodeProto) bool {
	if !onnx.IsDefault(n.GetDomain()) {
		return false
	}
	switch n.GetOpType() {
	case "And", "ArgMax", "ArgMin", "Bernoulli", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
		"Ceil", "Constant", "ConstantOfShape", "Equal", "EyeLike", "Floor", "Greater", "GreaterOrEqual", "Hardmax",
		"IsInf", "IsNaN", "Less", "LessOrEqual", "Multinomial", "NonZero", "Not", "Or", "RandomNormal",
		"RandomNormalLike", "RandomUniform", "RandomUniformLike", "Round", "Shape", "Sign", "Size", "Xor":
		return true
	}
	return false
}
