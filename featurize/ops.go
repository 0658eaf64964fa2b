package featurize

// normalisers map logits to probabilities. What they read is the logits.
var normalisers = map[string]bool{
	"Softmax": true, "LogSoftmax": true, "Sigmoid": true, "HardSigmoid": true,
}

// passers keep the values of their first input: they change its shape, its
// element type or nothing at all.
var passers = map[string]bool{
	"Identity": true, "Dropout": true, "Cast": true, "CastLike": true, "Flatten": true, "Reshape": true,
	"Squeeze": true, "Unsqueeze": true, "Transpose": true, "Expand": true, "ZipMap": true,
}

// rounders pass their first input on, rounded to a few bits.
var rounders = map[string]bool{"QuantizeLinear": true, "DequantizeLinear": true}

// activations act on each element alone (or, LpNormalization, on each row) and
// are not affine: what lies behind them is still the last linear layer.
var activations = map[string]bool{
	"Relu": true, "LeakyRelu": true, "PRelu": true, "Elu": true, "Selu": true, "Celu": true, "Clip": true,
	"ThresholdedRelu": true, "Tanh": true, "Softplus": true, "Softsign": true, "HardSwish": true, "Gelu": true,
	"Mish": true, "Exp": true, "Log": true, "Sqrt": true, "Abs": true, "Erf": true, "Floor": true, "Ceil": true,
	"Round": true, "LpNormalization": true, "Normalizer": true, "GlobalMaxPool": true,
}

// averages are means over positions; they commute with a linear layer that is
// applied at each position.
var averages = map[string]bool{
	"GlobalAveragePool": true, "AveragePool": true, "ReduceMean": true, "QLinearGlobalAveragePool": true,
	"QLinearAveragePool": true,
}

// linear are the operators that end the walk, with the names they go by in
// quantised and in fused graphs.
var linear = map[string]bool{
	"Gemm": true, "MatMul": true, "Conv": true,
	"FusedGemm": true, "FusedMatMul": true, "FusedConv": true,
	"MatMulInteger": true, "ConvInteger": true,
	"QLinearMatMul": true, "QLinearConv": true, "QGemm": true,
	"MatMulIntegerToFloat": true, "DynamicQuantizeMatMul": true,
}
