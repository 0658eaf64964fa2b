package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// rules are the gradients known, by operator of the default domain. An
// operator more is a rule, a line here and a row in the test's table; its
// shape in types_elementwise.go saves shape arithmetic at run time.
var rules = map[string]rule{
	"Abs":                          gradAbs,
	"Acos":                         pointwise(slopeAcos),
	"Acosh":                        pointwise(slopeAcosh),
	"Add":                          gradSum,
	"Asin":                         pointwise(slopeAsin),
	"Asinh":                        pointwise(slopeAsinh),
	"Atan":                         pointwise(slopeAtan),
	"Atanh":                        pointwise(slopeAtanh),
	"AveragePool":                  gradAveragePool,
	"BatchNormalization":           gradBatchNormalization,
	"Cast":                         gradCast,
	"CastLike":                     gradCast,
	"Celu":                         pointwise(slopeCelu),
	"Clip":                         gradClip,
	"Compress":                     gradCompress,
	"Concat":                       gradConcat,
	"Conv":                         gradConv,
	"ConvInteger":                  gradConvInteger,
	"ConvTranspose":                gradConvTranspose,
	"Cos":                          pointwise(slopeCos),
	"Cosh":                         pointwise(slopeCosh),
	"CumSum":                       gradCumSum,
	"DepthToSpace":                 gradDepthToSpace,
	"DequantizeLinear":             gradDequantizeLinear,
	"Div":                          gradDiv,
	"Dropout":                      gradDropout,
	"DynamicQuantizeLinear":        gradDynamicQuantizeLinear,
	"Einsum":                       gradEinsum,
	"Elu":                          pointwise(slopeElu),
	"Erf":                          pointwise(slopeErf),
	"Exp":                          gradExp,
	"Expand":                       gradExpand,
	"Flatten":                      gradReshape,
	"Gather":                       gradGather,
	"GatherElements":               gradGatherElements,
	"GatherND":                     gradGatherND,
	"Gelu":                         pointwise(slopeGelu),
	"Gemm":                         gradGemm,
	"GlobalAveragePool":            gradGlobalAveragePool,
	"GlobalLpPool":                 gradGlobalLpPool,
	"GlobalMaxPool":                gradGlobalMaxPool,
	"GroupNormalization":           gradGroupNormalization,
	"HardSigmoid":                  gradHardSigmoid,
	"HardSwish":                    pointwise(slopeHardSwish),
	"Identity":                     gradIdentity,
	"InstanceNormalization":        gradInstanceNormalization,
	"LRN":                          gradLRN,
	"LayerNormalization":           gradLayerNormalization(true),
	"LeakyRelu":                    pointwise(slopeLeakyRelu),
	"Log":                          gradLog,
	"LogSoftmax":                   gradLogSoftmax,
	"LpNormalization":              gradLpNormalization,
	"LpPool":                       gradLpPool,
	"MatMul":                       gradMatMul,
	"MatMulInteger":                gradMatMulInteger,
	"Max":                          gradExtremum("GreaterOrEqual"),
	"MaxPool":                      gradMaxPool,
	"Mean":                         gradMean,
	"MeanVarianceNormalization":    gradMeanVarianceNormalization,
	"Min":                          gradExtremum("LessOrEqual"),
	"Mish":                         pointwise(slopeMish),
	"Mod":                          gradMod,
	"Mul":                          gradMul,
	"Neg":                          gradNeg,
	"PRelu":                        gradPRelu,
	"Pad":                          gradPad,
	"Pow":                          gradPow,
	"QLinearConv":                  gradQLinearConv,
	"QLinearMatMul":                gradQLinearMatMul,
	"QuantizeLinear":               gradQuantizeLinear,
	"RMSNormalization":             gradLayerNormalization(false),
	"Reciprocal":                   gradReciprocal,
	"ReduceL1":                     reduction(false, shareL1),
	"ReduceL2":                     reduction(false, shareL2),
	"ReduceLogSum":                 reduction(false, shareLogSum),
	"ReduceLogSumExp":              reduction(true, shareLogSumExp),
	"ReduceMax":                    reduction(true, extremeShare),
	"ReduceMean":                   gradReduceMean,
	"ReduceMin":                    reduction(true, extremeShare),
	"ReduceProd":                   reduction(true, shareProd),
	"ReduceSum":                    gradReduceSum,
	"ReduceSumSquare":              reduction(false, shareSumSquare),
	"Relu":                         gradRelu,
	"Reshape":                      gradReshape,
	"Resize":                       gradResize,
	"ScatterElements":              gradScatterElements,
	"ScatterND":                    gradScatterND,
	"Selu":                         pointwise(slopeSelu),
	"Shrink":                       pointwise(slopeShrink),
	"Sigmoid":                      gradSigmoid,
	"SimplifiedLayerNormalization": gradLayerNormalization(false),
	"Sin":                          pointwise(slopeSin),
	"Sinh":                         pointwise(slopeSinh),
	"Slice":                        gradSlice,
	"Softmax":                      gradSoftmax,
	"Softplus":                     gradSoftplus,
	"Softsign":                     pointwise(slopeSoftsign),
	"SpaceToDepth":                 gradSpaceToDepth,
	"Split":                        gradSplit,
	"Sqrt":                         gradSqrt,
	"Squeeze":                      gradReshape,
	"Sub":                          gradSub,
	"Sum":                          gradSum,
	"Swish":                        pointwise(slopeSwish),
	"Tan":                          pointwise(slopeTan),
	"Tanh":                         gradTanh,
	"ThresholdedRelu":              pointwise(slopeThresholdedRelu),
	"Tile":                         gradTile,
	"TopK":                         gradTopK,
	"Transpose":                    gradTranspose,
	"Trilu":                        gradTrilu,
	"Unsqueeze":                    gradReshape,
	"Where":                        gradWhere,
}

// runtimeDomain is that of ONNX Runtime's own operators, which its optimizer
// and its quantizer put into models.
const runtimeDomain = "com.microsoft"

// contribRules are the gradients known of operators of runtimeDomain.
var contribRules = map[string]rule{
	"BiasGelu":                         gradBiasGelu((*call).erfGelu),
	"DequantizeLinear":                 gradDequantizeLinear,
	"DynamicQuantizeMatMul":            gradDynamicQuantizeMatMul,
	"FastGelu":                         gradBiasGelu((*call).tanhGelu),
	"FusedMatMul":                      gradFusedMatMul,
	"Gelu":                             pointwise(slopeGelu),
	"MatMulIntegerToFloat":             gradMatMulIntegerToFloat,
	"QuantizeLinear":                   gradQuantizeLinear,
	"QuickGelu":                        pointwise(slopeQuickGelu),
	"SkipLayerNormalization":           gradSkipNormalization(true, 3, 4),
	"SkipSimplifiedLayerNormalization": gradSkipNormalization(false, 5, 3),
}

// classicalDomain is that of the operators that prepare tables.
const classicalDomain = "ai.onnx.ml"

// classicalRules are the gradients known of operators of classicalDomain.
var classicalRules = map[string]rule{
	"Normalizer": gradNormalizer,
	"Scaler":     gradScaler,
}

// ruleOf returns the rule of a node's operator, nil where there is none.
func (g *tape) ruleOf(n *pb.NodeProto) rule {
	switch {
	case g.types.branch(n) != nil:
		return gradBranch
	case onnx.IsDefault(n.GetDomain()):
		return rules[n.GetOpType()]
	case n.GetDomain() == runtimeDomain:
		return contribRules[n.GetOpType()]
	case n.GetDomain() == classicalDomain:
		return classicalRules[n.GetOpType()]
	}
	return nil
}

// reasons say why operators without a rule have none.
var reasons = map[string]string{
	"If":   "which branch runs is found at run time",
	"Loop": "how often its body runs is found at run time",
	"Scan": "it runs a graph of its own for each element",
}

// ends says that a node's outputs are constant almost everywhere, or depend
// on its inputs' shapes only.
func ends(n *pb.NodeProto) bool {
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
