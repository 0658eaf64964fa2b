package double

import "github.com/attach-uncertainty/attach/internal/onnx/pb"

// runtimeDomain is that of ONNX Runtime's own operators.
const runtimeDomain = "com.microsoft"

// kernels are the operators of the default domain that the runtime computes in
// double precision as they are, or that have nothing to do with real numbers.
// That it has a kernel is not enough: Shrink's rounds its attributes.
var kernels = map[string]bool{
	"Abs": true, "Add": true, "And": true, "ArgMax": true, "ArgMin": true, "BatchNormalization": true, "BitShift": true,
	"BitwiseAnd": true, "BitwiseNot": true, "BitwiseOr": true, "BitwiseXor": true, "Cast": true, "CastLike": true, "Ceil": true,
	"Compress": true, "Concat": true, "Constant": true, "ConstantOfShape": true, "Cos": true, "CumSum": true,
	"DepthToSpace": true, "Div": true, "Dropout": true, "Einsum": true, "Equal": true, "Exp": true, "Expand": true, "EyeLike": true,
	"Flatten": true, "Floor": true, "Gather": true, "GatherElements": true, "GatherND": true, "Gemm": true, "Greater": true,
	"GreaterOrEqual": true, "Identity": true, "If": true, "IsInf": true, "IsNaN": true, "Less": true,
	"LessOrEqual": true, "Log": true, "LogSoftmax": true, "LpNormalization": true, "MatMul": true, "Max": true, "MaxPool": true,
	"Min": true, "Mod": true, "Mul": true, "Neg": true, "Not": true, "Or": true,
	"Pad": true, "Pow": true, "Range": true, "Reciprocal": true, "ReduceL1": true, "ReduceL2": true, "ReduceLogSum": true,
	"ReduceLogSumExp": true, "ReduceMax": true, "ReduceMean": true, "ReduceMin": true, "ReduceProd": true, "ReduceSum": true,
	"ReduceSumSquare": true, "Relu": true, "Reshape": true, "Round": true, "Scatter": true, "ScatterElements": true, "ScatterND": true,
	"Shape": true, "Sigmoid": true, "Sign": true, "Sin": true, "Size": true, "Slice": true, "Softmax": true,
	"SpaceToDepth": true, "Split": true, "Sqrt": true, "Squeeze": true, "Sub": true, "Sum": true, "Tanh": true, "Tile": true,
	"TopK": true, "Transpose": true, "Trilu": true, "Unsqueeze": true, "Where": true, "Xor": true,
}

// lowerings are the operators that are replaced. A rule returns the name of
// what takes the place of the node's first output.
var lowerings = map[string]lowering{
	"Acos":                         pointwise((*site).acos),
	"Acosh":                        pointwise((*site).acosh),
	"Asin":                         pointwise((*site).asin),
	"Asinh":                        pointwise((*site).asinh),
	"Atan":                         pointwise((*site).atan),
	"Atanh":                        pointwise((*site).atanh),
	"AveragePool":                  lowerAveragePool,
	"Celu":                         pointwise((*site).celu),
	"Clip":                         lowerClip,
	"Conv":                         lowerConv,
	"ConvTranspose":                lowerConvTranspose,
	"Cosh":                         pointwise((*site).cosh),
	"Elu":                          pointwise((*site).elu),
	"Erf":                          pointwise((*site).erf),
	"Gelu":                         pointwise((*site).gelu),
	"GlobalAveragePool":            lowerGlobal("ReduceMean"),
	"GlobalLpPool":                 lowerGlobalLpPool,
	"GlobalMaxPool":                lowerGlobal("ReduceMax"),
	"GroupNormalization":           lowerGroup,
	"HardSigmoid":                  pointwise((*site).hardSigmoid),
	"HardSwish":                    pointwise((*site).hardSwish),
	"InstanceNormalization":        lowerInstance,
	"LRN":                          lowerLRN,
	"LayerNormalization":           lowerLayer(true),
	"LeakyRelu":                    pointwise((*site).leakyRelu),
	"LpPool":                       lowerLpPool,
	"Mean":                         lowerMean,
	"MeanVarianceNormalization":    lowerMeanVariance,
	"Mish":                         pointwise((*site).mish),
	"NonZero":                      lowerNonZero,
	"OneHot":                       lowerOneHot,
	"PRelu":                        lowerPRelu,
	"RMSNormalization":             lowerLayer(false),
	"Resize":                       lowerResize,
	"Selu":                         pointwise((*site).selu),
	"SimplifiedLayerNormalization": lowerLayer(false),
	"Shrink":                       pointwise((*site).shrink),
	"Sinh":                         pointwise((*site).sinh),
	"Softplus":                     pointwise((*site).softplus),
	"Softsign":                     pointwise((*site).softsign),
	"Swish":                        pointwise(swish(1)),
	"Tan":                          pointwise((*site).tan),
	"ThresholdedRelu":              pointwise((*site).thresholdedRelu),
}

// contribLowerings are those of runtimeDomain.
var contribLowerings = map[string]lowering{
	"BiasGelu":                         biasGelu((*site).erfGelu),
	"FastGelu":                         biasGelu((*site).tanhGelu),
	"Gelu":                             pointwise((*site).gelu),
	"QuickGelu":                        pointwise(swish(1.702)),
	"SkipLayerNormalization":           lowerSkip(true, 3, 4),
	"SkipSimplifiedLayerNormalization": lowerSkip(false, 0, 3),
}

// check says whether a node of the model can be computed in double precision.
func check(n *pb.NodeProto) error {
	if rule, kernel := ruleOf(n); rule != nil || kernel {
		return nil
	}
	return unsupported(n, "ONNX Runtime does not compute it in double precision, and no equivalent is known")
}

func ruleOf(n *pb.NodeProto) (rule lowering, kernel bool) {
	switch domainOf(n) {
	case "":
		return lowerings[n.GetOpType()], kernels[n.GetOpType()]
	case runtimeDomain:
		return contribLowerings[n.GetOpType()], n.GetOpType() == "FusedMatMul"
	}
	return nil, false
}
